#!/usr/bin/env bash
# Installs nginx, HAProxy, systemd-analyze, promtool and amtool on Debian, without starting their services.
set -euo pipefail
if [ -x /usr/sbin/nginx ] && [ -x /usr/sbin/haproxy ] &&
  command -v systemd-analyze >/dev/null && command -v promtool >/dev/null && command -v amtool >/dev/null; then
  exit
fi
exec "$(dirname "$0")/../debian.sh" nginx haproxy systemd prometheus prometheus-alertmanager
