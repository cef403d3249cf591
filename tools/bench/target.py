"""What a load runs on, the service or a peer, and the processor time that it uses there."""

from collections.abc import Callable

import attrs

from tools.bench.chat_wire import ChatWire
from tools.bench.machine import cpu_seconds
from tools.driving.service import Service

Ports = Callable[[], tuple[int, int]]
STORED = "SELECT count(*) FROM chat_messages WHERE session_id = ANY($1::uuid[])"


@attrs.frozen(kw_only=True)
class ProcessorUse:
    """Processor seconds of the processes that hold the sockets, of PostgreSQL and of Redis, so far."""

    hub: float
    postgres: float
    redis: float

    def cost(self, before: "ProcessorUse", messages: int) -> dict[str, float]:
        """Return the figures of what each 1,000 messages have cost since `before`."""
        shares = {
            "of it hub": self.hub - before.hub,
            "of it PostgreSQL": self.postgres - before.postgres,
            "of it Redis": self.redis - before.redis,
        }
        found = {name: seconds / max(1, messages) * 1000 for name, seconds in shares.items()}
        return {"CPU s per 1,000": sum(found.values()), **found}


@attrs.frozen(kw_only=True)
class Target:
    """Where the customer and the mitra of a pair connect, how they speak, and the processes that do the work.

    `stored`: the statement that counts the messages of some sessions.
    """

    service: Service
    ports: Ports
    pids: tuple[int, ...]
    wire: type[ChatWire] = ChatWire
    stored: str = STORED

    def used(self) -> ProcessorUse:
        """Read the processor time used so far."""
        servers = self.service.servers.pids
        return ProcessorUse(
            hub=sum(map(cpu_seconds, self.pids)),
            postgres=cpu_seconds(servers["postgres"], children=True),
            redis=cpu_seconds(servers["valkey"]),
        )


def of_service(service: Service, *, hubs: int = 1) -> Target:
    """Return the service as a target. With several hubs, the customer and the mitra connect to different ones."""
    ports = service.ports["REALTIME"], service.ports["REALTIME2" if hubs > 1 else "REALTIME"]
    pids = tuple(process.pid for key, process in service.processes.items() if key.startswith("realtime"))
    return Target(service=service, ports=lambda: ports, pids=pids)
