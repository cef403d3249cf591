"""`make audit-locks`: look up the packages of the lock files in a database of known vulnerabilities.

The database is the package index, a server that speaks the protocol of OSV, such as a mirror (`--osv-url`), or without
any network an archive that OSV publishes (`--osv-archive`). pip-audit asks the first two.
Exit codes: 0 no known vulnerability, 1 vulnerabilities, 2 a package could not be looked up.
"""

import argparse
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable

import attrs
from packaging.version import InvalidVersion

from tools.checks.osv_archive import Archive, KnownFlaw
from tools.pages.licences import ROOT, pins

PROGRAM = ROOT / ".venv" / "bin" / "pip-audit"
LOCKS = tuple(sorted((ROOT / "requirements").glob("*.lock")))


class NotChecked(Exception):
    """A package could not be looked up. The message says why."""


@attrs.frozen
class LockedPackage:
    """A pinned package and its known vulnerabilities."""

    name: str
    version: str
    known: list[KnownFlaw]


def look_up(lock: pathlib.Path, osv_url: str | None = None) -> list[LockedPackage]:
    """Look up the packages of a lock file by pip-audit. Raises NotChecked."""
    source = ["--vulnerability-service", "osv", "--osv-url", osv_url] if osv_url else []
    with tempfile.TemporaryDirectory() as cache:
        # Without --strict, packages that could not be looked up count as good.
        done = subprocess.run(
            [PROGRAM, "--strict", "--disable-pip", "--no-deps", "--progress-spinner", "off", "--format", "json",
             "--cache-dir", cache, *source, "-r", lock],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if not done.stdout.startswith("{"):
        said = [line for line in done.stderr.splitlines() if line and "WARNING" not in line]
        raise NotChecked(f"the data is not available: {said[-1] if said else done.returncode}")
    return [
        LockedPackage(
            one["name"], one["version"], [KnownFlaw(known["id"], known["fix_versions"]) for known in one["vulns"]]
        )
        for one in json.loads(done.stdout)["dependencies"]
    ]


def look_up_in(archive: Archive, lock: pathlib.Path) -> list[LockedPackage]:
    """Look up the packages of a lock file in an archive. Raises NotChecked."""
    try:
        return [LockedPackage(name, version, archive.of(name, version)) for name, version in pins(lock).items()]
    except InvalidVersion as error:
        raise NotChecked(f"the archive has a version that can't be compared: {error}") from error


def audit(lock: pathlib.Path, look: Callable[[pathlib.Path], list[LockedPackage]]) -> tuple[int, str]:
    """Look up the packages of a lock file; return the exit code and what to print."""
    try:
        found = look(lock)
    except NotChecked as error:
        return 2, f"{lock.name}: not checked, {error}"
    bad = [
        f"{lock.name}: {one.name} {one.version}: {known.id}, fixed in {', '.join(known.fixed_in) or 'no version'}"
        for one in found
        for known in one.known
    ]
    return (1, "\n".join(bad)) if bad else (0, f"{lock.name}: no known vulnerability in {len(found)} packages")


def source(words: list[str] | None = None) -> Callable[[pathlib.Path], list[LockedPackage]]:
    """Return what looks up the packages of a lock file, as the options of the command say. Raises NotChecked."""
    options = argparse.ArgumentParser(prog="make audit-locks")
    chosen = options.add_mutually_exclusive_group()
    chosen.add_argument("--osv-url", help="a server with the protocol of OSV; default: the package index")
    chosen.add_argument("--osv-archive", type=pathlib.Path, help="the archive that OSV publishes for PyPI, all.zip")
    values = options.parse_args(words)
    if values.osv_archive:
        try:
            archive = Archive.read(values.osv_archive)
        except (OSError, zipfile.BadZipFile, ValueError, KeyError) as error:
            raise NotChecked(f"{values.osv_archive} can't be read: {error!r}") from error
        print(f"{len(archive.affected)} packages have known vulnerabilities, up to {archive.newest}")
        return functools.partial(look_up_in, archive)
    if not PROGRAM.exists():
        raise NotChecked("pip-audit is missing: run `make audit-locks`, which installs it")
    return functools.partial(look_up, osv_url=values.osv_url)


def main(words: list[str] | None = None) -> int:
    """Check all locks; return the exit code."""
    try:
        look = source(words)
    except NotChecked as error:
        print(f"not checked, {error}", file=sys.stderr)
        return 2
    codes = []
    for lock in LOCKS:
        code, said = audit(lock, look)
        codes.append(code)
        print(said, file=sys.stderr if code else sys.stdout, flush=True)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
