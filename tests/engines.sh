#!/usr/bin/env bash
# Installs the engines, proxies and checkers that slow tests need, on Debian, without starting their services.
set -euo pipefail
packages=()
need() { # need PACKAGE PROGRAM…
  for program in "${@:2}"; do
    PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null || { packages+=("$1"); return; }
  done
}
need nginx nginx
need haproxy haproxy
need systemd systemd-analyze
need prometheus promtool
need prometheus-alertmanager amtool
need etcd-server etcd
need pgbouncer pgbouncer
need pgbackrest pgbackrest
compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null || packages+=(postgresql)
[ ${#packages[@]} = 0 ] || exec "$(dirname "$0")/debian.sh" "${packages[@]}"
