"""The programs that check or run the files of `deploy`, and what is missing of them."""

import os
import pathlib
import subprocess
from typing import Any

from tests import debian

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHECKERS = ROOT / ".venv" / "bin"
PROXIES = ("nginx", "haproxy")


def missing(*names: str) -> str:
    """Return which of these programs are missing and how to install them; an empty text if none is."""
    return debian.missing({name: name for name in names})


def checkers_missing() -> str:
    """Return what is missing for the checks and how to install it; an empty text if nothing is."""
    if not (CHECKERS / "hadolint").exists():
        return "the checkers are missing: run `make engines`"
    return missing(*PROXIES, "systemd-analyze", "promtool", "amtool")


def said_by(*command: Any, **env: str) -> tuple[int, str]:
    """Run a program; return its exit code and all of its output."""
    done = subprocess.run(
        [str(word) for word in command], env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    return done.returncode, (done.stdout + done.stderr).strip()


def complaint_of(*command: Any, **env: str) -> str:
    """Run a program; return its output if it fails, else an empty text."""
    code, said = said_by(*command, **env)
    return (said or f"{command[0]}: exit code {code}") if code else ""
