"""A running proxy with the shipped configuration, and clients that reach a service only through it, over TLS."""

import contextlib
import copy
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator

import aiohttp
import aiohttp.abc
import attrs

from tests.debian import path_of
from tests.deploy.placed import NAME, place, write_certificate
from tests.deploy.programs import DEPLOY
from tests.stack import Stack, World
from tools.driving.device import Addresses, Device
from tools.driving.service import READY_S
from tools.driving.throwaway import free_port

SECOND = "127.0.0.2"  # the address of the second process of each kind, as in the shipped files
KINDS = {"api": ("PUBLIC", "INTERNAL"), "realtime": ("REALTIME",)}
STOP_S = 10.0
# Longer than HAProxy needs to notice a process that is not ready.
DRAIN_S = 4


class OnlyHere(aiohttp.abc.AbstractResolver):
    """Resolve every name to loopback."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        """Return loopback and the port."""
        return [
            aiohttp.abc.ResolveResult(
                hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


class TwoOfEach(Stack):
    """A service with two api and two realtime processes. `proxy_port` is the port of the proxy in front of it, if any."""

    proxy_port = 0

    def behind(self, proxy_port: int) -> "TwoOfEach":
        """Return the same service as its users see it through the proxy on this port."""
        made = copy.copy(self)
        made.proxy_port = proxy_port
        return made

    @property
    def addresses(self) -> Addresses:
        """Return the addresses of the proxy, and that of the internal listener of the first api process."""
        name = f"{NAME}:{self.proxy_port}"
        return Addresses(public=f"https://{name}", internal=super().addresses.internal, realtime=f"wss://{name}")

    def direct(self) -> str:
        """Return the public address of the first api process."""
        return super().addresses.public

    def start_second(self, kind: str) -> None:
        """Start the second process of a kind, whose stop takes DRAIN_S seconds, and wait until it is ready."""
        hosts = {f"{name}_HOST": SECOND for name in KINDS[kind]}
        self.start(kind, key=f"{kind}-2", DRAIN_SECONDS=str(DRAIN_S), **hosts)  # type: ignore[arg-type]
        self.wait_ready(kind, host=SECOND, key=f"{kind}-2")

    def replace_realtime(self) -> None:
        """Stop each realtime process and start it again, one after the other, as a rolling restart does."""
        self.ask_second_to_stop("realtime")
        self.processes["realtime-2"].wait(STOP_S)
        self.start_second("realtime")
        self.stop("realtime")
        self.start("realtime")

    def ask_second_to_stop(self, kind: str) -> None:
        """Send SIGTERM to the second process of a kind."""
        self.processes[f"{kind}-2"].send_signal(signal.SIGTERM)

    def second_has_stopped(self, kind: str) -> bool:
        """Return whether the second process of a kind has ended. Raises AssertionError if it failed."""
        code = self.processes[f"{kind}-2"].poll()
        assert code in {None, 0}, self.log(f"{kind}-2")[-3000:]
        return code == 0


class ProxiedWorld(World):
    """Users whose devices reach the service through the proxy and trust only its certificate."""

    def __init__(self, stack: TwoOfEach, certificate: pathlib.Path) -> None:
        super().__init__(stack)
        self.two_of_each = stack
        self._trust = ssl.create_default_context(cafile=str(certificate))

    def http(self) -> aiohttp.ClientSession:
        """Return a new HTTP client. The caller closes it."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=OnlyHere(), ssl=self._trust),
            timeout=aiohttp.ClientTimeout(total=15),
        )

    def client(self) -> Device:
        """Return a device without a user."""
        made = Device(self.stack.addresses, http=self.http())
        self.clients.append(made)
        return made


@attrs.frozen
class Front:
    """A running proxy: its name, the service behind it, its port for operators, and its folder."""

    proxy: str
    inside: int
    stack: TwoOfEach
    folder: pathlib.Path

    @property
    def certificate(self) -> pathlib.Path:
        """Return the file with its certificate."""
        return self.folder / "tls.crt"

    def logged(self) -> str:
        """Return all that it logged."""
        return "".join(file.read_text(errors="replace") for file in self.folder.glob("*.log"))


def command_of(proxy: str, folder: pathlib.Path, file: pathlib.Path) -> list[str]:
    """Return the command that runs a proxy in the foreground."""
    more = {
        "nginx": ["-p", str(folder), "-c", str(file), "-g", "daemon off;"],
        "haproxy": ["-db", "-f", str(file)],
    }
    return [path_of(proxy), *more[proxy]]


def await_listening(port: int, process: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    """Wait until the proxy accepts connections. Raises AssertionError with its log if it does not."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"the proxy does not listen:\n{log.read_text(errors='replace')[-3000:]}")


@contextlib.contextmanager
def in_front(proxy: str, stack: TwoOfEach, **env: str) -> Iterator[Front]:
    """Run a proxy in front of the service, with these environment variables."""
    with tempfile.TemporaryDirectory(prefix=f"sesi-{proxy}-") as made:
        folder = pathlib.Path(made)
        folder.chmod(0o755)  # under root the workers of nginx are another user, and write long bodies here
        write_certificate(folder)
        port, inside = free_port(), free_port()
        ports = (stack.ports["PUBLIC"], stack.ports["INTERNAL"], stack.ports["REALTIME"])
        file = place(proxy, DEPLOY, folder, port=port, inside=inside, ports=ports)
        log = folder / "output.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command_of(proxy, folder, file), stdout=out, stderr=out, cwd=folder, env={**os.environ, **env}
            )
        try:
            await_listening(port, process, log)
            yield Front(proxy, inside, stack.behind(port), folder)
        finally:
            process.terminate()
            try:
                process.wait(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
