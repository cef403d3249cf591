"""Three PostgreSQL servers with Patroni and one etcd, with HAProxy and PgBouncer in front of them."""

import asyncio
import contextlib
import json
import pathlib
import shutil
import signal
import time
import urllib.error
import urllib.request
from typing import Any

import asyncpg
import attrs

from tests.debian import path_of
from tests.faults.failover.cluster import signal_server
from tests.faults.proxy import Mode, Proxy
from tests.ha.configuration import HAPROXY, PATRONI, PGBOUNCER
from tests.ha.programs import PATRONI_PYTHON, Programs
from tools.driving.throwaway import free_port

LAUNCHER = pathlib.Path(__file__).with_name("patroni_launcher.py")
READY_S = 90.0
POLL_S = 0.2
ANSWER_S = 1.0  # a frozen node does not answer


@attrs.frozen(kw_only=True)
class Node:
    """A PostgreSQL server with its Patroni, whose connection to etcd is a proxy."""

    name: str
    port: int
    rest: int
    etcd: Proxy

    def status(self, path: str) -> tuple[int, Any]:
        """Return (status, body) of Patroni's REST route; (0, None) if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/{path}", timeout=ANSWER_S) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, None
        except OSError:
            return 0, None


class Cluster:
    """The servers. `ttl`: seconds after which a silent leader loses its role; Patroni's own minimum is 20."""

    def __init__(self, *, ttl: int) -> None:
        self.ttl = ttl
        self._ends = contextlib.ExitStack()
        self.programs = Programs()
        self._ends.callback(self.programs.close)
        self.folder = self.programs.folder
        try:
            self._start()
        except BaseException:
            self._ends.close()
            raise

    def _start(self) -> None:
        etcd, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.programs.start(
            "etcd", path_of("etcd"), "--name", "e", "--data-dir", self.folder / "etcd",
            "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"e={peer}",
        )  # fmt: skip
        self._await_version(etcd)
        self.nodes = []
        for name in ("n1", "n2", "n3"):
            proxy = Proxy(etcd)
            self._ends.callback(proxy.close)
            self.nodes.append(Node(name=name, port=free_port(), rest=free_port(), etcd=proxy))
        self._ends.callback(self._kill_servers)
        shutil.copy(LAUNCHER, self.folder)  # where Patroni's account can read it
        for node in self.nodes:
            (self.folder / f"{node.name}.yml").write_text(
                PATRONI.format(
                    name=node.name, rest=node.rest, etcd=node.etcd.port, ttl=self.ttl, port=node.port,
                    folder=self.folder, binaries=self.programs.postgres,
                )
            )  # fmt: skip
            self.start(node)
        self.haproxy_port, self.pgbouncer_port = free_port(), free_port()
        servers = "\n".join(
            f"    server {node.name} 127.0.0.1:{node.port} check port {node.rest}" for node in self.nodes
        )
        (self.folder / "haproxy.cfg").write_text(HAPROXY.format(port=self.haproxy_port, servers=servers))
        (self.folder / "users.txt").write_text('"postgres" ""\n')

    def _await_version(self, etcd: str) -> None:
        """Wait until etcd has decided its version: Patroni ends if it reads it earlier."""
        deadline = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{etcd}/version", timeout=ANSWER_S) as response:
                if json.load(response)["etcdcluster"] != "not_decided":
                    return
            assert time.monotonic() < deadline, self.programs.logs()
            time.sleep(POLL_S)

    async def ready(self) -> Node:
        """Wait until there is a leader with a synchronous standby and all nodes are current; return the leader."""
        deadline = time.monotonic() + READY_S
        while True:
            leader = await self.leader()
            _, body = await asyncio.to_thread(leader.status, "cluster") if leader else (0, None)
            members = body["members"] if body else []
            if (
                len(members) == len(self.nodes)
                and all(one["state"] in ("running", "streaming") and not one.get("lag") for one in members)
                and any(one["role"] == "sync_standby" for one in members)
            ):
                assert leader is not None
                return leader
            assert time.monotonic() < deadline, f"{members}\n{self.programs.logs()}"
            await asyncio.sleep(POLL_S)

    async def leader(self, *, other_than: Node | None = None) -> Node | None:
        """Return the node that Patroni reports as the primary; None if there is none, except perhaps `other_than`."""
        for node in self.nodes:
            if node is not other_than and (await asyncio.to_thread(node.status, "primary"))[0] == 200:
                return node
        return None

    async def successor(self, before: Node) -> Node:
        """Wait until another node is the primary; return it."""
        deadline = time.monotonic() + READY_S
        while (found := await self.leader(other_than=before)) is None:
            assert time.monotonic() < deadline, self.programs.logs()
            await asyncio.sleep(POLL_S)
        return found

    async def create_database(self) -> None:
        """Create the empty database of the service, and start HAProxy and PgBouncer."""
        leader = await self.ready()
        connection = await asyncpg.connect(f"postgresql://postgres@127.0.0.1:{leader.port}/postgres?sslmode=disable")
        await connection.execute("CREATE DATABASE sesi")
        await connection.close()
        self.programs.start("haproxy", path_of("haproxy"), "-db", "-f", self.folder / "haproxy.cfg")
        self.start_pgbouncer("pgbouncer", self.pgbouncer_port)

    def start_pgbouncer(self, name: str, port: int, *, more: str = "") -> None:
        """Start a PgBouncer in front of HAProxy. `more` are further lines of its configuration."""
        path = self.folder / f"{name}.ini"
        path.write_text(PGBOUNCER.format(port=port, server=self.haproxy_port, folder=self.folder, more=more))
        self.programs.start(name, path_of("pgbouncer"), path)

    # -- addresses

    @property
    def url(self) -> str:
        """The URL that names all servers."""
        return self.url_at(*(node.port for node in self.nodes))

    def url_of(self, node: Node) -> str:
        """Return the URL of one server."""
        return self.url_at(node.port)

    @property
    def haproxy_url(self) -> str:
        """The URL of the primary behind HAProxy."""
        return self.url_at(self.haproxy_port)

    @property
    def pgbouncer_url(self) -> str:
        """The URL of the primary behind PgBouncer and HAProxy."""
        return self.url_at(self.pgbouncer_port)

    def url_at(self, *ports: int) -> str:
        """Return the URL of the service's database at these ports."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://postgres@{hosts}/sesi?sslmode=disable"

    # -- faults

    def start(self, node: Node) -> None:
        """Start Patroni of a node, which starts PostgreSQL."""
        self.programs.start(node.name, PATRONI_PYTHON, self.folder / LAUNCHER.name, self.folder / f"{node.name}.yml")

    def switch_over(self, node: Node) -> None:
        """Ask Patroni for a planned switchover away from this node; return when it is done."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{node.rest}/switchover",
            data=json.dumps({"leader": node.name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200

    def kill(self, node: Node) -> None:
        """Kill a node, as when its machine loses power."""
        self.programs.kill(node.name)
        signal_server(self._postmaster(node), signal.SIGKILL)

    def freeze(self, node: Node) -> None:
        """Freeze a node: connections stay open, nothing answers."""
        self.freeze_patroni(node)
        signal_server(self._postmaster(node), signal.SIGSTOP)

    def freeze_patroni(self, node: Node) -> None:
        """Freeze Patroni of a node; PostgreSQL goes on."""
        self.programs.signal(node.name, signal.SIGSTOP)

    def thaw(self, node: Node) -> None:
        """Continue a frozen node."""
        signal_server(self._postmaster(node), signal.SIGCONT)
        self.programs.signal(node.name, signal.SIGCONT)

    def isolate(self, node: Node) -> None:
        """Cut a node off from etcd."""
        node.etcd.switch(Mode.HANG)

    def reconnect(self, node: Node) -> None:
        """End the isolation of a node."""
        node.etcd.switch(Mode.PASS)

    def _postmaster(self, node: Node) -> int:
        return int((self.folder / node.name / "postmaster.pid").read_text().split()[0])

    def _kill_servers(self) -> None:
        """Kill Patroni first, which would restart its server."""
        for node in self.nodes:
            with contextlib.suppress(KeyError):  # not started
                self.programs.kill(node.name)
            with contextlib.suppress(OSError, ValueError, IndexError):
                signal_server(self._postmaster(node), signal.SIGKILL)

    def close(self) -> None:
        """Kill everything and delete the data."""
        self._ends.close()
