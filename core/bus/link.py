"""One connection to a server of the bus, and the channels that it is subscribed to.

redis-py's own subscriptions connect again without telling, and one that is silent stays so; here each new connection
and each subscription that the server ends is known
(docs/decisions/0021-what-redis-py-does-for-the-bus.md).
"""

import asyncio
import contextlib
import itertools
import math
from collections.abc import Awaitable, Callable, Sequence, Set
from operator import itemgetter

from redis.asyncio.connection import AbstractConnection

from core.base import ids
from core.base.clock import monotonic, real_sleep
from core.bus.bus import Bus, NoServer
from core.bus.server import LOST, BusServer
from core.telemetry import logs

CONNECT_S = 1.0
SEND_S = 1.0
RECONNECT_S = 0.25
QUIET_S = 3.0  # real seconds of silence after which the connection is probed
PROBE_S = 1.0  # real seconds within which the probe must arrive
SETTLED_S = 3.0  # real seconds of a connection after which other processes have theirs, too
PROBES_TRIED = 100_000  # names, until one is in a slot of the server
log = logs.get("bus")
Handler = Callable[[str, bytes], Awaitable[None] | None]


class Link:
    """The connection to one server, with the channels that it has."""

    def __init__(
        self, bus: Bus, server: BusServer, channels: Set[str], handle: Handler, resubscribed: Callable[[], None]
    ) -> None:
        """`channels` are those of all servers; the caller changes them, and tells of each change by `add` or
        `remove`.
        """
        self.confirmed: set[str] = set()
        self.late: set[str] = set()  # not confirmed in time, so messages may be missing
        self.connected = False
        self._connected_at = 0.0
        self._bus = bus
        self._server = server
        self._channels = channels
        self._handle = handle
        self._resubscribed = resubscribed
        # To be sent, each with its place; True subscribes. None without a connection.
        self._changes: list[tuple[tuple[bool, int], bool, str]] | None = None
        self._unanswered: dict[str, int] = {}  # commands for a channel, sent or to be sent
        self._wake = asyncio.Event()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._heard_at = 0.0
        self._probe = ""
        self._task: asyncio.Task[None] | None = None
        sharded = b"s" if bus.is_cluster else b""
        self._words = (sharded + b"unsubscribe", sharded + b"subscribe")
        self._message = sharded + b"message"

    # -- channels

    def add(self, name: str) -> None:
        """Subscribe to a channel."""
        self._change(name, wanted=True)

    def remove(self, name: str) -> None:
        """Unsubscribe from a channel."""
        self.late.discard(name)
        if name in self._waiting:
            self._waiting.pop(name).cancel()
        self._change(name, wanted=False)

    def take_over(self, name: str) -> None:
        """Subscribe to a channel, unless that was done. Its messages on another server may have been missed."""
        if name not in self.confirmed and name not in self._unanswered:
            self.late.add(name)
            self.add(name)

    def wait_for(self, name: str) -> asyncio.Future[None]:
        """Return a future of the server's confirmation.

        It is cancelled when the connection is lost or the channel removed.
        """
        if name not in self._waiting:
            self._waiting[name] = asyncio.get_running_loop().create_future()
        return self._waiting[name]

    def _change(self, name: str, *, wanted: bool) -> None:
        self.confirmed.discard(name)
        if self._changes is not None:
            # On a cluster a command has channels of one slot. The probe is in the last command.
            place = name == self._probe, self._bus.slot_of(name)
            self._changes.append((place, wanted, name))
            self._unanswered[name] = self._unanswered.get(name, 0) + 1
            self._wake.set()

    async def unheard(self, names: Sequence[str]) -> set[str]:
        """Return those of these channels to which no process is subscribed. Empty while that is not sure.

        A server that has just begun lacks the subscriptions of processes that have not connected again yet.
        """
        if not self.connected or monotonic() < self._connected_at + SETTLED_S:
            return set()
        client = self._server.client
        count = client.pubsub_shardnumsub if self._bus.is_cluster else client.pubsub_numsub
        try:
            async with asyncio.timeout(PROBE_S):
                counts = await count(*names)
        except LOST:
            return set()
        return {name for name, (_, subscribers) in zip(names, counts, strict=True) if subscribers == 0}

    # -- the connection

    def start(self) -> None:
        """Connect."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        task = asyncio.current_task()
        # A task group that fails while it is cancelled raises the failure alone.
        while task is not None and not task.cancelling():
            connection = self._server.connection()
            try:
                await self._serve(connection)
            except* LOST as errors:
                self._server.note(errors.exceptions[0])
            except* Exception:
                log.exception("a subscription of the bus failed")
            finally:
                self._lose()
                with contextlib.suppress(*LOST):
                    await connection.disconnect(nowait=True)
            await real_sleep(RECONNECT_S)

    async def _serve(self, connection: AbstractConnection) -> None:
        """Subscribe to the channels and receive their messages. Raises a group of errors when the connection fails."""
        async with asyncio.TaskGroup() as group:
            async with asyncio.timeout(CONNECT_S):
                await connection.connect()
            self._probe = self._own_name()
            self._changes = []
            for name in (*self._channels, self._probe):
                if self._bus.of(name) is self._server:
                    self.add(name)
            self._heard_at = monotonic()
            group.create_task(self._keep_subscribed(connection))
            group.create_task(self._keep_probing())
            while True:
                reply = await connection.read_response(disable_decoding=True, timeout=math.inf)
                assert reply is not None  # that is for a read with a deadline
                await self._take(reply)

    async def _keep_subscribed(self, connection: AbstractConnection) -> None:
        """Tell the server which channels to send, and which to stop sending."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            changes, self._changes = sorted(self._changes or (), key=itemgetter(0)), []
            for (_, wanted), some in itertools.groupby(changes, key=itemgetter(0, 1)):
                async with asyncio.timeout(SEND_S):
                    await connection.send_command(self._words[wanted], *(name for *_, name in some), check_health=False)

    async def _keep_probing(self) -> None:
        """After QUIET_S of silence, publish a message to a channel of this connection.

        A proxy may keep the connection and answer a PING although the server behind it was replaced and does not have
        the subscriptions. Only a message that arrives proves that others would. Raises TimeoutError if it does not
        arrive.
        """
        while True:
            await real_sleep(max(0.01, self._heard_at + QUIET_S - monotonic()))
            silent_since = self._heard_at
            if monotonic() < silent_since + QUIET_S:
                continue
            async with asyncio.timeout(PROBE_S):
                await self._server.publish_now(self._probe)
                while self._heard_at == silent_since:
                    await real_sleep(0.01)

    async def _take(self, reply: list[bytes]) -> None:
        self._heard_at = monotonic()
        name = reply[1].decode()
        if reply[0] == self._message:
            if name != self._probe:
                await self._hand_over(name, reply[2])
            return
        unanswered = self._unanswered.pop(name, 0) - 1
        if unanswered > 0:
            self._unanswered[name] = unanswered
        elif reply[0] == self._words[True]:
            self._confirm(name)
        elif unanswered < 0:
            raise NoServer(name)  # its slot has left the server

    def _confirm(self, name: str) -> None:
        self.confirmed.add(name)
        if name in self._waiting:
            self._waiting.pop(name).set_result(None)
        if name == self._probe:  # the last one of a new connection
            self.connected = True
            self._connected_at = monotonic()
            self._server.note()
            self.late.clear()
            self._resubscribed()
        elif name in self.late:
            self.late.discard(name)
            if self.connected and not self.late:
                self._resubscribed()

    async def _hand_over(self, name: str, data: bytes) -> None:
        try:
            result = self._handle(name, data)
            if result is not None:
                await result
        except Exception:
            log.exception("handling a message of the bus failed", channel=name)

    def _lose(self) -> None:
        """Forget what the lost connection was subscribed to."""
        self.connected, self._changes = False, None
        self._unanswered.clear()
        self.confirmed.clear()
        while self._waiting:
            self._waiting.popitem()[1].cancel()

    def _own_name(self) -> str:
        """Return the name of a channel that this server has. Raises NoServer if it has none."""
        for _ in range(PROBES_TRIED):
            name = f"sesi:probe:{ids.new_id()}"
            if self._bus.of(name) is self._server:
                return name
        raise NoServer(str(self._server.address))
