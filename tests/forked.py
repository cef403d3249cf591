"""Service processes forked from a parent that has already imported the service.

That halves the cost of a start, and the tests start about 240 processes. A child runs the same `sesi` command with its
own environment, log and process id. One-off commands, the benchmark and `make chaos` start processes the ordinary way.
"""

import contextlib
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
from multiprocessing import connection

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["api.server", "realtime.server", "jobs.server", "tools.cli"])
LOOK = threading.Lock()  # an exit code can be read from the pipe only once


def _run(name: str, env: dict[str, str], log: str) -> None:
    os.environ.clear()
    os.environ.update(env)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    from tools.cli import main

    sys.exit(main([name]))


class Forked:
    """A running process, with the interface of `subprocess.Popen` that the tests need."""

    def __init__(self, name: str, env: dict[str, str], log: pathlib.Path) -> None:
        self._name = name
        self._process = FORKS.Process(target=_run, args=(name, env, str(log)), daemon=True)
        with LOOK:
            self._process.start()

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""
        with LOOK:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process ends; return its exit code. Raises subprocess.TimeoutExpired."""
        connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._name, timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal if the process runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)
