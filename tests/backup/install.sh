#!/usr/bin/env bash
# Installs PostgreSQL and pgBackRest on Debian, without starting their services.
set -euo pipefail
if command -v pgbackrest >/dev/null && compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null; then
  exit
fi
exec "$(dirname "$0")/../debian.sh" postgresql pgbackrest
