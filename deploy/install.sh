#!/bin/sh
# Builds the wheel of the checkout SOURCE, and installs it into a new virtual environment, TARGET, with the packages of
# requirements/runtime.lock and of the lock of EXTRA, such as `traces`. The container image and `make package-proof` use
# this script. PYTHON is the interpreter: by default the system's, because units can't use one below /root or /home.
set -eu
umask 022
# Bytecode without columns, which only the marks below the lines of a traceback need: less memory, and faster starts.
export PYTHONNODEBUGRANGES=1
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  echo "usage: deploy/install.sh SOURCE TARGET [EXTRA]" >&2
  exit 2
fi
source=$(cd "$1" && pwd)
target=$2
python=${PYTHON:-$(command -v /usr/bin/python3 || command -v python3)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Only tracked folders are copied: setuptools would put deleted modules that are left in `build` into the wheel.
mkdir "$work/source"
for part in pyproject.toml README.md LICENSE api core jobs piccolo_migrations realtime tools; do
  cp -R "$source/$part" "$work/source/$part"
done
"$python" -m venv "$work/build"
pip="$work/build/bin/python -m pip --quiet --disable-pip-version-check"
$pip install --require-hashes --no-deps -r "$source/requirements/build.lock"
$pip wheel --no-deps --no-build-isolation --wheel-dir "$work/wheel" "$work/source"

# The environment of the service has no pip and no setuptools.
"$python" -m venv --without-pip "$target"
pip="$pip --python $target/bin/python"
for lock in runtime ${3-}; do
  $pip install --require-hashes --no-deps -r "$source/requirements/$lock.lock"
done
$pip install --no-deps --no-index "$work"/wheel/sesi-*.whl
