"""Every installation takes the versions of its lock file, and the service needs no package of development."""

import ast
import functools
import importlib.metadata
import pathlib
import re
import sys

import pytest
from packaging.utils import canonicalize_name

from tools.checks.package_proof import OF_A_CHECKOUT, PACKAGES
from tools.pages.licences import LAPTOP, LOCK, LOCKS, ROOT, TRACES_LOCK, pins

pytestmark = pytest.mark.slow

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
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def not_in_production(path: pathlib.Path, *extras: pathlib.Path) -> set[str]:
    """Return the imported names that no package of the runtime lock, or of the locks of extras, provides."""
    others = imported(path) - sys.stdlib_module_names - {*PACKAGES}
    locked = {name for lock in (LOCK, *extras) for name in pins(lock)}
    return {name for name in others if not providers().get(name, set()) & locked}


@pytest.mark.parametrize("file", ["Makefile", "deploy/install.sh"])
def test_every_installation_of_a_lock_checks_hashes_and_takes_nothing_else(file: str) -> None:
    installs = [line for line in (ROOT / file).read_text().splitlines() if re.search(r"-r \S*\.lock", line)]
    assert len(installs) >= 2
    for line in installs:
        assert "--require-hashes --no-deps -r" in line, line


def test_image_is_built_with_all_files_that_the_install_script_reads() -> None:
    script = (ROOT / "deploy" / "install.sh").read_text()
    parts = re.search(r"for part in (.*); do", script)
    assert parts is not None
    read = {*parts[1].split(), "deploy/install.sh"}
    read |= {f"requirements/{name}.lock" for name in ("build", "runtime", "traces")}
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == read


def test_each_lock_has_only_what_the_locks_before_it_lack() -> None:
    found = [pins(LOCKS / f"{name}.lock").keys() for name in ("build", "runtime", "laptop", "traces", "dev", "tools")]
    assert len(set().union(*found)) == sum(map(len, found))
    build, runtime, laptop, traces, dev, _ = found
    assert build == {"setuptools", "uv"}
    assert len(runtime) > 35
    assert runtime.isdisjoint({"black", "faker", "jinja2", "polyfactory", "pydantic", "pygments"})
    assert laptop > {*LAPTOP}
    assert "opentelemetry-sdk" in traces
    assert {"pytest", "playwright", "ruff"} < dev


def test_no_lock_names_an_index() -> None:
    for lock in LOCKS.glob("*.lock"):
        assert "://" not in lock.read_text()


def test_service_and_commands_import_only_packages_of_the_runtime_lock() -> None:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): names for path in files if (names := not_in_production(path))}
    assert {file: names for file, names in found.items() if not file.startswith((EXPORTER, *OF_A_CHECKOUT))} == {}
    assert not_in_production(ROOT / EXPORTER, TRACES_LOCK) == set()


def test_import_of_a_development_package_is_found(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("import os, pytest\n\ndef f():\n    from playwright.sync_api import Page\n    import aiohttp\n")
    assert not_in_production(file) == {"pytest", "playwright"}
