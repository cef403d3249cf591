"""Processes of the service and its commands, forked from a parent that has already imported the service.

That saves most of the cost of a start: the tests start about 240 processes and 300 commands. A child runs the same
`sesi` command with its own environment, output and process id. The benchmark, `make chaos` and the processes of
`sesi up` start the ordinary way.

A service whose environment has CONSTANTS runs with other values of module constants, such as the pause between two
reads of the figures of the cluster, so that a test does not wait for what it does not prove.
"""

import contextlib
import importlib
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
from multiprocessing import connection

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.imported"])
CONSTANTS = "CONSTANTS_OF_TESTS"  # in the environment: JSON, values by dotted name
# For services whose rate limits must be exact: with the default, a process that gets no answer from Valkey for a quarter
# of a second decides alone, as it may on a busy machine.
PATIENT = {CONSTANTS: json.dumps({"core.bus.rate_limit.DEADLINE_S": 5.0})}
LOOK = threading.Lock()  # an exit code can be read from the pipe only once


def _run(args: tuple[str, ...], env: dict[str, str], stdin: str, stdout: str, stderr: str) -> None:
    """Be the command `sesi`, with standard streams from and to these files."""
    os.environ.clear()
    os.environ.update(env)
    for name, value in json.loads(os.environ.pop(CONSTANTS, "{}")).items():
        module, _, constant = name.rpartition(".")
        found = importlib.import_module(module)
        assert isinstance(getattr(found, constant), type(value)), name
        setattr(found, constant, value)
    for number, path, flags in ((0, stdin, os.O_RDONLY), (1, stdout, os.O_WRONLY), (2, stderr, os.O_WRONLY)):
        opened = os.open(path, flags | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has closed it
    from tools.cli import main

    sys.exit(main(list(args)))


class Forked:
    """A running process, with the interface of `subprocess.Popen` that the tests need."""

    def __init__(self, name: str, env: dict[str, str], log: pathlib.Path) -> None:
        self._begin((name,), env, os.devnull, str(log), str(log))

    def _begin(self, args: tuple[str, ...], env: dict[str, str], *files: str) -> None:
        self._args = args
        self._process = FORKS.Process(target=_run, args=(args, env, *files), daemon=True)
        with LOOK:
            self._process.start()

    @classmethod
    def command(
        cls, args: tuple[str, ...], env: dict[str, str], stdin: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a `sesi` command to its end, as `subprocess.run` does. Raises subprocess.TimeoutExpired."""
        with tempfile.TemporaryDirectory(prefix="sesi-command-") as folder:
            given, out, error = (pathlib.Path(folder, name) for name in ("stdin", "stdout", "stderr"))
            given.write_text(stdin)
            made = cls.__new__(cls)
            made._begin(args, env, str(given), str(out), str(error))
            try:
                code = made.wait(timeout)
            except BaseException:
                made.kill()
                raise
            return subprocess.CompletedProcess(args, code, out.read_text(), error.read_text())

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
            raise subprocess.TimeoutExpired(list(self._args), timeout or 0)
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
