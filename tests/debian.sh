#!/usr/bin/env bash
# Installs Debian packages without starting their services: tests/debian.sh PACKAGE…
set -euo pipefail
root=$([ "$(id -u)" = 0 ] || echo sudo)
# Debian starts the services of new packages unless this file forbids it.
if [ ! -e /usr/sbin/policy-rc.d ]; then
  printf '#!/bin/sh\nexit 101\n' | $root tee /usr/sbin/policy-rc.d >/dev/null
  $root chmod +x /usr/sbin/policy-rc.d
  trap '$root rm -f /usr/sbin/policy-rc.d' EXIT
fi
$root apt-get update -qq
$root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"
