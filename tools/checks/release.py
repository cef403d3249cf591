"""`make release`: build a release of the commit that is checked out into `dist`, from a clean tree.

The release has the wheels and source archives of the service and of the Python client, the package of the client
library, the chart, the documentation site, the interface documents, the SBOM, and SHA256SUMS with the digest of each
file. Everything is built in a copy of the commit and has its date, so a second build has the same bytes.

`make release VERSION=1.0.0` writes the version and the interface documents that belong to it, to be committed before.
"""

import argparse
import gzip
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
TARGET = ROOT / "dist"
SUMS = "SHA256SUMS"
PYTHON_CLIENT = "tools/driving/sesi_client"
# The files that have the version, and where in them; the first one is the one that counts.
VERSIONED = {
    "pyproject.toml": r'^version = "(.+)"$',
    f"{PYTHON_CLIENT}/pyproject.toml": r'^version = "(.+)"$',
    "api/web/client/package.json": r'^  "version": "(.+)",$',
    "deploy/chart/Chart.yaml": r"^version: (.+)$",
    "deploy/chart/Chart.yaml ": r'^appVersion: "(.+)"$',
}
# setuptools leaves its own arguments behind.
BUILD = "import sys; from setuptools import build_meta as b; to = sys.argv[1]; b.build_wheel(to); b.build_sdist(to)"
INTERFACES = ("public.openapi.json", "internal.openapi.json", "sockets.asyncapi.json", "errors.json")


class NoRelease(Exception):
    """The tree can't be released. The message says why."""


def version(root: pathlib.Path = ROOT) -> str:
    """Return the version in pyproject.toml. Raises NoRelease if another file has another one."""
    found = {}
    for name, pattern in VERSIONED.items():
        (found[name],) = re.findall(pattern, (root / name.strip()).read_text(), re.M)
    if len(set(found.values())) > 1:
        raise NoRelease(", ".join(f"{name.strip()} has version {value}" for name, value in found.items()))
    return str(found["pyproject.toml"])


def prepare(new: str) -> None:
    """Write a version into all files that have it, and the interface documents of the release."""
    for name, pattern in VERSIONED.items():
        path = ROOT / name.strip()
        path.write_text(re.sub(pattern, lambda match: match[0].replace(match[1], new), path.read_text(), flags=re.M))
    for command in ("tools.compatibility", "tools.pages.client_package"):
        subprocess.run([sys.executable, "-m", command, "--release"], check=True, cwd=ROOT)


def git(*args: str) -> bytes:
    """Return what git prints. Raises NoRelease."""
    done = subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, check=False)
    if done.returncode:
        raise NoRelease(done.stderr.decode().strip())
    return done.stdout


def archive(folder: pathlib.Path, name: str, target: pathlib.Path, at: int) -> None:
    """Write the files of a folder, below `name`, as a compressed archive whose bytes depend on nothing else."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            entry = tarfile.TarInfo(f"{name}/{path.relative_to(folder).as_posix()}")
            entry.size, entry.mtime = path.stat().st_size, at
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as file:
                tar.addfile(entry, file)
    target.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


class Release:
    """A release that is built in the folder `copy`, which has the files of the commit, into `target`."""

    def __init__(self, copy: pathlib.Path, target: pathlib.Path) -> None:
        self.copy = copy
        self.target = target
        self.at = int(git("show", "--no-patch", "--format=%ct", "HEAD"))
        self.version = version(copy)
        self._env = os.environ | {"SOURCE_DATE_EPOCH": str(self.at), "PYTHONPATH": str(copy), "TZ": "UTC"}

    def run(self, *command: str | pathlib.Path, folder: str = ".") -> None:
        """Run a command in a folder of the copy. Raises NoRelease with what it printed."""
        words = [str(word) for word in command]
        done = subprocess.run(
            words, cwd=self.copy / folder, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise NoRelease(f"{' '.join(words[:4])}: {done.stdout}")

    def python_packages(self, folder: str) -> None:
        """Build the wheel and the source archive of a folder; setuptools writes its time into the latter."""
        self.run(sys.executable, "-c", BUILD, self.target, folder=folder)
        for path in self.target.glob("*.tar.gz"):
            with tempfile.TemporaryDirectory() as unpacked, tarfile.open(path) as tar:
                tar.extractall(unpacked, filter="data")
                name = path.name.removesuffix(".tar.gz")
                archive(pathlib.Path(unpacked, name), name, path, self.at)

    def client_library(self) -> None:
        """Write the types of the client library, and pack it."""
        self.run(sys.executable, "-m", "tools.pages.client_package")
        npm = ROOT / ".venv/bin/npm"
        self.run(npm, "pack", "./api/web/client", "--silent", "--pack-destination", self.target)

    def site(self) -> None:
        """Build the documentation site."""
        self.run(sys.executable, "-m", "tools.pages.docs_site")
        self.run(ROOT / ".venv/bin/node", "node_modules/typedoc/bin/typedoc", "--tsconfig", "tools/pages/typedoc.json")
        self.run(ROOT / ".venv/bin/zensical", "build", "--strict", "--clean")
        archive(self.copy / "site", "site", self.target / f"sesi-docs-{self.version}.tar.gz", self.at)

    def documents(self) -> None:
        """Copy the interface documents, pack the chart, and write the SBOM."""
        for name in INTERFACES:
            shutil.copy(self.copy / "docs/api" / name, self.target)
        chart = self.target / f"sesi-chart-{self.version}.tgz"
        archive(self.copy / "deploy/chart", "sesi", chart, self.at)
        self.run(sys.executable, "-m", "tools.checks.sbom", self.target / "sesi.cdx.json")

    def sums(self) -> None:
        """Write the SHA-256 of all files, as sha256sum does."""
        files = sorted(self.target.iterdir())
        lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
        (self.target / SUMS).write_text("".join(lines))


def build(target: pathlib.Path) -> str:
    """Build the release of the commit that is checked out into an empty folder; return its version. Raises NoRelease."""
    with tempfile.TemporaryDirectory(prefix="sesi-release-") as folder:
        copy = pathlib.Path(folder)
        with tarfile.open(fileobj=io.BytesIO(git("archive", "HEAD"))) as tar:
            tar.extractall(copy, filter="data")
        for name in ("node_modules", ".venv"):
            (copy / name).symlink_to(ROOT / name)
        release = Release(copy, target)
        release.python_packages(".")
        release.python_packages(PYTHON_CLIENT)
        release.client_library()
        release.site()
        release.documents()
        release.sums()
        return release.version


def main() -> int:
    """Prepare a release, or build it and list its files; return the exit code."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("version", nargs="?", help="write this version, to be committed; build nothing")
    new = options.parse_args().version
    if new is not None:
        prepare(new)
        return 0
    try:
        if changed := git("status", "--porcelain").decode():
            raise NoRelease(f"commit these files first, or remove them:\n{changed}")
        shutil.rmtree(TARGET, ignore_errors=True)
        TARGET.mkdir()
        made = build(TARGET)
    except NoRelease as refused:
        print(refused, file=sys.stderr)
        return 1
    print(f"sesi {made}:")
    print((TARGET / SUMS).read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
