#!/usr/bin/env bash
# Installs nginx, HAProxy, Caddy and systemd-analyze on Debian, without starting their services.
set -euo pipefail
if [ -x /usr/sbin/nginx ] && [ -x /usr/sbin/haproxy ] && command -v caddy >/dev/null && command -v systemd-analyze >/dev/null; then
  exit
fi
exec "$(dirname "$0")/../debian.sh" nginx haproxy caddy systemd
