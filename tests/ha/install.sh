#!/usr/bin/env bash
# Installs etcd, HAProxy and PgBouncer on Debian, without starting their services.
set -euo pipefail
if command -v etcd >/dev/null && [ -x /usr/sbin/haproxy ] && [ -x /usr/sbin/pgbouncer ]; then
  exit
fi
exec "$(dirname "$0")/../debian.sh" etcd-server haproxy pgbouncer
