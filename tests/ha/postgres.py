"""Faults of PostgreSQL with Patroni, under a service that connects by several hosts, HAProxy or PgBouncer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import attrs

from tests.faults.failover.load import Load
from tests.ha.cluster import Cluster, Node
from tests.ha.measure import measure
from tests.ha.report import Outcome
from tests.stack import Stack, World
from tools.driving.service import PROCESSES

ENGINE = "PostgreSQL"
PATRONI = "4.1.5"  # requirements/ha.in
TTL_S, QUICK_TTL_S = 20, 8  # the least that Patroni accepts, and what patroni_launcher.py allows
SEVERAL_HOSTS, THROUGH_HAPROXY, THROUGH_PGBOUNCER = "several hosts", "HAProxy", "PgBouncer and HAProxy"


@attrs.frozen(kw_only=True)
class Fault:
    """What happens to the leader, and how it is repaired after the failover."""

    happen: Callable[[Cluster, Node], None]
    repair: Callable[[Cluster, Node], None]


FAULTS: Mapping[str, Fault] = {
    "switchover": Fault(happen=Cluster.switch_over, repair=lambda _, __: None),
    "leader killed (SIGKILL)": Fault(happen=Cluster.kill, repair=Cluster.start),
    "leader frozen (SIGSTOP)": Fault(happen=Cluster.freeze, repair=Cluster.thaw),
    "leader cut off from etcd": Fault(happen=Cluster.isolate, repair=Cluster.reconnect),
    "Patroni of the leader frozen": Fault(happen=Cluster.freeze_patroni, repair=Cluster.thaw),
}
RUNS = [
    *((fault, SEVERAL_HOSTS) for fault in FAULTS),
    ("switchover", THROUGH_HAPROXY),
    ("leader killed (SIGKILL)", THROUGH_HAPROXY),
    ("leader killed (SIGKILL)", THROUGH_PGBOUNCER),
    ("leader frozen (SIGSTOP)", THROUGH_PGBOUNCER),
]


class Deployment:
    """A service over three PostgreSQL servers. `ttl` is Patroni's, in seconds."""

    def __init__(self, *, ttl: int) -> None:
        self.cluster = Cluster(ttl=ttl)
        try:
            self.stack = Stack(only_database=True)  # its Redis is used, and its database is not
        except BaseException:
            self.cluster.close()
            raise
        self._connection = ""

    async def begin(self) -> None:
        """Create the database of the service."""
        await self.cluster.create_database()
        self.stack.env["DATABASE_URL"] = self.cluster.url
        await self._follow_primary()
        await asyncio.to_thread(self.stack._fill_database)

    async def _follow_primary(self) -> None:
        """Point the tests' own statements to the primary."""
        self.stack.database_url = self.cluster.url_of(await self.cluster.ready())

    async def connect(self, connection: str) -> None:
        """Start the service, or restart it if it runs with another way to connect to the database."""
        if connection == self._connection:
            return
        for name in PROCESSES if self._connection else ():
            await asyncio.to_thread(self.stack.stop, name)
        self._connection = connection
        url, pooler = {
            SEVERAL_HOSTS: (self.cluster.url, "none"),
            THROUGH_HAPROXY: (self.cluster.haproxy_url, "none"),
            THROUGH_PGBOUNCER: (self.cluster.pgbouncer_url, "transaction"),
        }[connection]
        self.stack.env |= {"DATABASE_URL": url, "DATABASE_POOLER": pooler}
        await asyncio.to_thread(self.stack.start_all)

    async def measure(self, fault: str, connection: str) -> Outcome:
        """Let a fault happen to the leader under load."""
        await self.connect(connection)
        leader = await self.cluster.ready()
        self.stack.database_url = self.cluster.url_of(leader)

        async def happen(_: Load) -> None:
            await asyncio.to_thread(FAULTS[fault].happen, self.cluster, leader)
            self.stack.database_url = self.cluster.url_of(await self.cluster.successor(leader))

        async def repaired() -> None:
            await asyncio.to_thread(FAULTS[fault].repair, self.cluster, leader)
            await self._follow_primary()

        return await measure(
            World(self.stack), happen, repaired=repaired, engine=ENGINE, name=fault, connection=connection
        )

    def close(self) -> None:
        """Stop everything."""
        try:
            self.stack.close()
        finally:
            self.cluster.close()


def note(*, quick: bool) -> str:
    """Return how Patroni is set up."""
    ttl = QUICK_TTL_S if quick else TTL_S
    return f"Patroni {PATRONI} with `ttl: {ttl}`, `loop_wait: 1`, `retry_timeout: 3`, `synchronous_mode: true`."


async def run(*, quick: bool) -> AsyncIterator[Outcome]:
    """Yield the outcome of each run; `quick` has Patroni replace a silent leader sooner than production allows."""
    ttl = QUICK_TTL_S if quick else TTL_S
    deployment = await asyncio.to_thread(lambda: Deployment(ttl=ttl))
    try:
        await deployment.begin()
        for fault, connection in RUNS:
            yield await deployment.measure(fault, connection)
    finally:
        deployment.close()
