"""Two of each process behind HAProxy with deploy/haproxy.cfg, without TLS, and their replacement one by one."""

import asyncio
import contextlib
import pathlib
import re
import signal
import time
import urllib.request
from collections.abc import AsyncIterator

import attrs

from tests.debian import path_of
from tests.ha.programs import Programs
from tests.stack import Stack
from tools.driving.service import PORT_OF, PROCESSES, SourceTree
from tools.driving.throwaway import free_port

CONFIGURATION = pathlib.Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
COPIES = 2
LISTENERS = {"api": ("PUBLIC", "INTERNAL"), "realtime": ("REALTIME",), "jobs": ("JOBS",)}
SHIPPED_PORTS = {"PUBLIC": 8000, "INTERNAL": 8001, "REALTIME": 8010}
STOP_S = 40.0  # DRAIN_SECONDS, 10 s for the sockets, SHUTDOWN_GRACE_SECONDS, and a margin for a busy machine
SERVED_S = 20.0
# What the tests set otherwise: the defaults of production, and HAProxy as the only proxy.
PRODUCTION = {"DRAIN_SECONDS": "5", "SHUTDOWN_GRACE_SECONDS": "10", "TRUSTED_PROXIES": "127.0.0.1"}


@attrs.frozen(kw_only=True)
class Replica:
    """One process. `machine` counts from 1; `ports` are those of its listeners."""

    kind: str
    machine: int
    ports: dict[str, int] = attrs.field(factory=dict)

    @property
    def key(self) -> str:
        """The name of the process in its stack."""
        return f"{self.kind}-{self.machine}"


def configuration(replicas: list[Replica], outside: int, inside: int) -> str:
    """Return the shipped configuration of HAProxy, with the addresses of these replicas and these ports to listen on."""
    tls = " ssl crt /etc/sesi/tls.pem alpn h2,http/1.1"
    changes = {
        f'bind ":${{SESI_PORT-443}}"{tls}': f"bind 127.0.0.1:{outside}",
        f'bind "${{SESI_INSIDE-127.0.0.1}}:8443"{tls}': f"bind 127.0.0.1:{inside}",
        "    user haproxy\n    group haproxy\n": "",
        "maxconn 50000": "maxconn 5000",
    }
    for replica in replicas:
        for name, port in replica.ports.items():
            shipped = (
                f'"${{SESI_{replica.kind.upper()}_{replica.machine}-127.0.0.{replica.machine}}}:{SHIPPED_PORTS[name]}"'
            )
            probed = f" port {replica.ports[PORT_OF[replica.kind]]}"
            changes[shipped] = f"127.0.0.1:{port}{probed}"
    text = CONFIGURATION.read_text()
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


class Replicas:
    """A service of COPIES processes of each kind, on one database and behind HAProxy."""

    def __init__(self, code: SourceTree) -> None:
        """Start the service from a source tree, on a database of that version."""
        self.stack = Stack(only_database=True, code=code)
        self.stack.env |= PRODUCTION
        self.programs: Programs | None = None
        try:
            self._start(code)
        except BaseException:
            self.close()
            raise

    def _start(self, code: SourceTree) -> None:
        machines = range(1, COPIES + 1)
        self.replicas = [
            Replica(kind=kind, machine=machine, ports={name: free_port() for name in LISTENERS[kind]})
            for machine in machines
            for kind in PROCESSES
        ]
        outside, inside = free_port(), free_port()
        self.stack.ports |= {"PUBLIC": outside, "REALTIME": outside, "INTERNAL": inside}
        self.programs = Programs()
        path = self.programs.folder / "haproxy.cfg"
        balanced = [one for one in self.replicas if one.kind != "jobs"]
        path.write_text(configuration(balanced, outside, inside))
        for replica in self.replicas:
            self._launch(replica, code)
        self.programs.start("haproxy", path_of("haproxy"), "-db", "-f", path)
        for port in (outside, inside):
            self._wait_served(port)

    def _launch(self, replica: Replica, code: SourceTree) -> None:
        """Start a process and wait until it is ready."""
        self.stack.use(code)
        ports = {f"{name}_PORT": str(port) for name, port in replica.ports.items()}
        self.stack.start(replica.kind, wait=False, key=replica.key, **ports)
        self.stack.wait_ready(replica.kind, port=replica.ports[PORT_OF[replica.kind]], key=replica.key)

    def _wait_served(self, port: int) -> None:
        """Wait until HAProxy has a process for its clients on this port."""
        assert self.programs is not None
        deadline = time.monotonic() + SERVED_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2):
                return
            time.sleep(0.05)
        raise AssertionError(f"HAProxy serves nobody:\n{self.programs.logs()}")

    def migrate(self, code: SourceTree) -> None:
        """Run `sesi migrate` of a source tree."""
        self.stack.use(code)
        self.stack.command("migrate")

    async def replace(self, code: SourceTree, kind: str) -> AsyncIterator[None]:
        """Replace each process of a kind: stop it, wait for its end, start the new one, wait until it serves; yield."""
        for replica in self.replicas:
            if replica.kind == kind:
                await asyncio.to_thread(self._replace, replica, code)
                if kind == "realtime":
                    await asyncio.to_thread(self._wait_for_socket, replica)
                yield

    def _replace(self, replica: Replica, code: SourceTree) -> None:
        process = self.stack.processes[replica.key]
        process.send_signal(signal.SIGTERM)
        exit_code = process.wait(timeout=STOP_S)
        assert exit_code == 0, f"{replica.key} ended with {exit_code}:\n{self.stack.log(replica.key)[-3000:]}"
        self._launch(replica, code)

    def _wait_for_socket(self, replica: Replica) -> None:
        """Wait until a realtime process has a socket: HAProxy has noticed it."""
        deadline = time.monotonic() + SERVED_S
        while time.monotonic() < deadline:
            with urllib.request.urlopen(f"http://127.0.0.1:{replica.ports['REALTIME']}/metrics", timeout=5) as answer:
                if re.search(r"^sesi_sockets\{.*\} [1-9]", answer.read().decode(), re.MULTILINE):
                    return
            time.sleep(0.05)
        raise AssertionError(f"HAProxy does not use {replica.key}")

    def close(self) -> None:
        """Stop everything."""
        try:
            self.stack.close()
        finally:
            if self.programs is not None:
                self.programs.close()
