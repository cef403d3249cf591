"""Processes of the service that are forked from one that has imported it: that is half of what a start costs, and the
tests start some 240.

What runs is the same `sesi` command, with an environment, a log and a life of its own. `Service.command` and the bench
start theirs as anybody does.
"""

import multiprocessing
import os
import pathlib
import subprocess
import sys

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["api.server", "realtime.server", "jobs.server", "tools.cli"])


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
        self._process = FORKS.Process(target=_run, args=(name, env, str(log)))
        self._process.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; return its exit code. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._name, timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        """SIGTERM."""
        if self.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """SIGKILL."""
        if self.poll() is None:
            self._process.kill()
