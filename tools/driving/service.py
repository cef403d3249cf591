"""A temporary service for tests and benchmarks, started process by process, with its own servers, data and ports."""

import functools
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from typing import Protocol

import attrs

from tools.commands import environment
from tools.driving.device import Addresses
from tools.driving.throwaway import free_port
from tools.embedded.servers import Embedded

PROCESSES = ("api", "realtime", "jobs")
PORT_OF = {"api": "INTERNAL", "realtime": "REALTIME", "jobs": "JOBS"}  # the listener with each process's probes
TRIES = 2  # restarts of a process that ends before it is ready
READY_S = 30.0
STOP_S = 20.0
COMMAND_S = 180.0  # several times what the longest one takes on an idle machine


class Process(Protocol):
    """A process of a service; `subprocess.Popen` implements it."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


@attrs.frozen(kw_only=True)
class SourceTree:
    """The source tree that a service runs: its interpreter and its folder (None: the tree of this process)."""

    python: str = sys.executable
    folder: pathlib.Path | None = None


OURS = SourceTree()


def launched(name: str, env: dict[str, str], log: pathlib.Path, *, code: SourceTree = OURS) -> Process:
    """Start a process of a service by its `sesi` command, with output to a log file."""
    with log.open("ab") as out:
        return subprocess.Popen(
            [code.python, "-m", "tools.cli", name], cwd=code.folder, env=env, stdout=out, stderr=out
        )


def executed(
    args: tuple[str, ...], env: dict[str, str], stdin: str, timeout: float, *, code: SourceTree = OURS
) -> subprocess.CompletedProcess[str]:
    """Run a `sesi` command to its end. Raises subprocess.TimeoutExpired."""
    return subprocess.run(
        [code.python, "-m", "tools.cli", *args],
        cwd=code.folder, input=stdin, env=env, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


class Service:
    """A service with running servers; `start` and `start_all` start its processes. `env` are additional settings."""

    launch: Callable[[str, dict[str, str], pathlib.Path], Process] = staticmethod(launched)
    execute: Callable[[tuple[str, ...], dict[str, str], str, float], subprocess.CompletedProcess[str]] = staticmethod(
        executed
    )

    def __init__(
        self,
        *,
        durable: bool,
        scale: float = 1,
        template: pathlib.Path | None = None,
        prefix: str = "sesi-service-",
        code: SourceTree = OURS,
        **env: str,
    ) -> None:
        self.use(code)
        self.root = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
        self.processes: dict[str, Process] = {}
        self.servers = Embedded(self.root, durable=durable, template=template)
        try:
            started = self.servers.start()
        except BaseException:
            self.close()
            raise
        self.database_url, self.redis_url = started.database_url, started.redis_url
        self.ports = {name: free_port() for name in ("PUBLIC", "INTERNAL", "REALTIME", "JOBS")}
        self.scale = scale
        self.env = {
            **environment.without_settings(),
            "ENVIRONMENT": "test",
            "ALLOW_EXPOSED_DEVELOPMENT": "true",  # its clients name other addresses in X-Forwarded-For
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "SESI_DATA_DIR": str(self.root),
            "SESI_TIME_SCALE": str(scale),
            "JWT_SECRETS": "test:" + secrets.token_hex(32),
            "ERASURE_HASH_KEYS": secrets.token_hex(32),
            "RECEIPT_SIGNING_KEYS": "test:" + secrets.token_hex(32),
            "DRAIN_SECONDS": "0",  # without a load balancer
            "SHUTDOWN_GRACE_SECONDS": "5",
            "PASSWORD_ROUNDS": "4",  # cheap: there are no real passwords
            # All clients come from one address. Tests of these limits set their own.
            "RATE_LIMIT_PER_MINUTE": "1000000",
            "RATE_LIMIT_BURST": "1000000",
            "RATE_LIMIT_ADDRESS_PER_MINUTE": "1000000",
            "RATE_LIMIT_ADDRESS_BURST": "1000000",
            "OPERATOR_RATE_LIMIT_PER_MINUTE": "1000000",
            "OPERATOR_SIGN_IN_PER_MINUTE": "1000000",
            **{f"{name}_PORT": str(port) for name, port in self.ports.items()},
            **env,
        }
        self._begun: dict[str, tuple[str, dict[str, str]]] = {}  # by key: (kind, its settings)

    def use(self, code: SourceTree) -> None:
        """Run this source tree in commands and in processes that start from now on."""
        self.code = code
        ours = code.folder is None
        self.launch = type(self).launch if ours else functools.partial(launched, code=code)
        self.execute = type(self).execute if ours else functools.partial(executed, code=code)

    @property
    def addresses(self) -> Addresses:
        """Return the base URLs of the service."""
        return Addresses(
            public=f"http://127.0.0.1:{self.ports['PUBLIC']}",
            internal=f"http://127.0.0.1:{self.ports['INTERNAL']}",
            realtime=f"ws://127.0.0.1:{self.ports['REALTIME']}",
        )

    def command(self, *args: str, stdin: str = "", check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a `sesi` command against this service. Raises AssertionError if it fails, unless `check` is False."""
        done = self.execute(args, {**self.env, **env}, stdin, COMMAND_S)
        if check and done.returncode != 0:
            raise AssertionError(f"sesi {' '.join(args)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def start_all(self) -> None:
        """Start one process of each kind and wait until they are ready."""
        for name in PROCESSES:
            self.start(name, wait=False)
        for name in PROCESSES:
            self.wait_ready(name, tries=TRIES)

    def start(self, name: str, *, wait: bool = True, key: str | None = None, **env: str) -> None:
        """Start a process. A second one of a kind needs its own `key`, and its own ports in `env`."""
        self._begun[key or name] = name, env
        self.processes[key or name] = self.launch(name, {**self.env, **env}, self.root / f"{key or name}.log")
        if wait and key is None:
            self.wait_ready(name)

    def wait_ready(
        self, name: str, *, host: str = "127.0.0.1", port: int | None = None, key: str | None = None, tries: int = 0
    ) -> None:
        """Wait until a process is ready. Raises AssertionError, with the end of its log, if it isn't within READY_S
        seconds.

        A process that has ended, as it does if the database is too slow, is restarted up to `tries` times.
        """
        url = f"http://{host}:{port or self.ports[PORT_OF[name]]}/readyz"
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(url, timeout=2) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                if tries > 0 and self.processes[key or name].poll() is not None:
                    tries -= 1
                    kind, env = self._begun[key or name]
                    self.start(kind, wait=False, key=key, **env)
                time.sleep(0.03)
        raise AssertionError(f"{name} is not ready:\n{self.log(key or name)[-3000:]}")

    def kill(self, name: str) -> None:
        """Send SIGKILL to a process and wait for its end."""
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self, name: str) -> int:
        """Send SIGTERM to a process and wait for its end; return its exit code."""
        self.processes[name].send_signal(signal.SIGTERM)
        return self.processes[name].wait(timeout=STOP_S)

    def restart(self, name: str) -> None:
        """Kill a process with SIGKILL and start it again."""
        self.kill(name)
        self.start(name)

    def log(self, name: str) -> str:
        """Return the log of a process."""
        return (self.root / f"{name}.log").read_text(errors="replace")

    def close(self) -> None:
        """Stop all processes and servers, and delete the data."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.servers.stop()
        shutil.rmtree(self.root, ignore_errors=True)
        if self.servers.postgres_dir is not None:
            shutil.rmtree(self.servers.postgres_dir, ignore_errors=True)
