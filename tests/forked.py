"""Processes of the service that are forked from one that has imported it: that is half of what a start costs, and the
tests start some 240.

What runs is the same `sesi` command, with an environment, a log and a life of its own. Commands are started as anybody
starts them, and so is what is no test: the bench, `make chaos`.
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
LOOK = threading.Lock()  # an exit code is read off a pipe, once


def _run(name: str, env: dict[str, str], log: str) -> None:
    os.environ.clear()
    os.environ.update(env)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    from tools.cli import main

    sys.exit(main([name]))


class Forked:
    """A running process, with what `subprocess.Popen` offers of it."""

    def __init__(self, name: str, env: dict[str, str], log: pathlib.Path) -> None:
        self._name = name
        self._process = FORKS.Process(target=_run, args=(name, env, str(log)), daemon=True)
        with LOOK:
            self._process.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        with LOOK:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; return its exit code. Raises subprocess.TimeoutExpired."""
        connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._name, timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)
