"""Every installation takes the versions of its lock file, whatever was released since."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
INSTALL = re.compile(r"pip .*--require-hashes (.*)")


def test_lock_files_are_constraints_too_because_pip_does_not_pin_a_package_with_extras() -> None:
    installs = INSTALL.findall((ROOT / "Makefile").read_text())
    assert len(installs) >= 4
    for options in installs:
        locks = re.fullmatch(r"-r (\S+) -c (\S+)", options)
        assert locks is not None, options
        assert locks[1] == locks[2]
