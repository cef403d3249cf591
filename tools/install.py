"""`make install`: installs the packages of a lock file by pip, and shows the progress, which pip doesn't.

Runs before anything is installed, so it uses the standard library only.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import threading
import time
from typing import IO

from core.base.progress import left

LOOK_S = 0.5
LINES_S = 10.0  # between two plain lines, if standard error is not a terminal
FETCHED = 0.5  # share of the time after which pip has fetched all packages, and begins to install them
PIN = re.compile(r"^[a-z0-9][^ ;]*==", re.MULTILINE)
# One line of pip for each package.
FOUND = ("Collecting ", "Processing ")
NEEDLESS = ("Requirement already", "Ignoring ")


class Work:
    """How much of an installation is done: of the packages that are not there already."""

    def __init__(self, packages: int) -> None:
        self._packages = packages
        self._fetched = 0

    def read(self, line: str) -> None:
        """Read a line of pip."""
        self._fetched += line.startswith(FOUND)
        self._packages -= line.startswith(NEEDLESS)

    def share(self, installed: int) -> float:
        """Return the share that is done, 0 to 1. `installed` packages were not there before."""
        packages = max(1, self._packages, self._fetched)
        return FETCHED * self._fetched / packages + (1 - FETCHED) * min(1.0, installed / packages)


class Pip:
    """A run of pip, in this Python's environment."""

    def __init__(self, lock: pathlib.Path) -> None:
        self._before = _installed()
        self._work = Work(len(PIN.findall(lock.read_text())))
        self.said: collections.deque[str] = collections.deque(maxlen=60)  # a failure is explained at the end
        # A lock file is given as a constraint too: pip 23 looks for `package[extra]` among all versions of the package,
        # whatever version of `package` the file pins.
        command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", "--require-hashes", "-r", str(lock), "-c", str(lock)]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reader.start()

    def _read(self, out: IO[str]) -> None:
        for line in out:
            self.said.append(line)
            self._work.read(line)

    def share(self) -> float:
        """Return the share of the work that is done, 0 to 1."""
        return self._work.share(len(_installed() - self._before))

    def wait(self) -> int | None:
        """Return the exit code, None if pip still runs after LOOK_S seconds."""
        try:
            code = self._process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join()
        return code


def _installed() -> set[str]:
    """Return the installed packages, with their versions."""
    return {folder.name for folder in pathlib.Path(sysconfig.get_path("purelib")).glob("*.dist-info")}


def _fitting(words: str) -> str:
    """Return a line that overwrites the last one. If the terminal is too narrow, the name of the file is left out,
    because the next line can't overwrite one that was wrapped."""
    room = min(70, (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1)
    if len(words) > room:
        words = "install:" + words.partition(":")[2]
    return f"{words[:room]:<{room}}"


def main(lock: pathlib.Path) -> int:
    """Install the packages of a lock file; return pip's exit code."""
    began = time.monotonic()
    next_line = began
    terminal = sys.stderr.isatty()
    pip = Pip(lock)
    while (code := pip.wait()) is None:
        now, share = time.monotonic(), pip.share()
        words = f"install {lock.name}: {share:4.0%}  {left(share, now - began)}"
        if terminal:
            print(f"\r{_fitting(words)}", end="", file=sys.stderr, flush=True)
        elif now >= next_line:
            next_line = now + LINES_S
            print(words.rstrip(), file=sys.stderr, flush=True)
    if terminal:
        print(f"\r{_fitting('')}\r", end="", file=sys.stderr)
    if code:
        print("".join(pip.said), file=sys.stderr)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(pathlib.Path(sys.argv[1])))
    except KeyboardInterrupt:  # pip has got the same signal
        print(file=sys.stderr)
        sys.exit(130)
