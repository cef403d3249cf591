"""One connection to a server of the bus, and the channels that it is subscribed to."""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence

from redis.asyncio.connection import AbstractConnection

from core.base import ids
from core.base.clock import monotonic, real_sleep
from core.bus.nodes import LOST, Node, Nodes, NoServer
from core.telemetry import logs

CONNECT_S = 1.0
SEND_S = 1.0
RECONNECT_S = 0.25
QUIET_S = 3.0  # real seconds of silence after which the connection is probed
PROBE_S = 1.0  # real seconds within which the probe must arrive
AT_ONCE = 1_000  # channels in a command
PROBES_TRIED = 100_000  # names, until one is in a slot of the server
log = logs.get("bus")
Handler = Callable[[str, bytes], Awaitable[None] | None]


class Link:
    """The connection to one server, with the channels that it has."""

    def __init__(self, nodes: Nodes, node: Node, handle: Handler, resubscribed: Callable[[], None]) -> None:
        self.confirmed: set[str] = set()
        self.late: set[str] = set()  # not confirmed in time, so messages may be missing
        self.connected = False
        self._nodes = nodes
        self._handle = handle
        self._resubscribed = resubscribed
        self._node = node
        self._channels: set[str] = set()
        self._asked: set[str] = set()
        self._unsubscribing: dict[str, int] = {}  # how many confirmations are to come
        self._changed: dict[str, None] = {}  # since the last commands; empty without a connection
        self._open = False
        self._wake = asyncio.Event()
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._heard_at = 0.0
        sharded = nodes.is_cluster
        self._words = (b"ssubscribe", b"sunsubscribe") if sharded else (b"subscribe", b"unsubscribe")
        self._message = b"smessage" if sharded else b"message"
        self._publish = "SPUBLISH" if sharded else "PUBLISH"
        self._probe = ""

    # -- channels

    def add(self, name: str) -> None:
        """Subscribe to a channel."""
        self._channels.add(name)
        self._change(name)

    def remove(self, name: str) -> None:
        """Unsubscribe from a channel."""
        self._channels.discard(name)
        self.late.discard(name)
        for future in self._waiting.pop(name, ()):
            future.cancel()
        self._change(name)

    def replace(self, names: set[str]) -> None:
        """Have exactly these channels; what is new here was on another server, so its messages may be missed."""
        for name in self._channels - names:
            self.remove(name)
        for name in names - self._channels:
            self.late.add(name)
            self.add(name)

    def wait_for(self, name: str) -> asyncio.Future[None]:
        """Return a future of the server's confirmation.

        It is cancelled when the connection is lost or the channel removed.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append(future)
        return future

    def _change(self, name: str) -> None:
        if self._open:
            self._changed[name] = None
            self._wake.set()

    # -- the connection

    def start(self) -> None:
        """Connect, unless that was done."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Close the connection."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while not self._stopping:  # a task group that fails while it is cancelled raises the failure alone
            connection = self._node.client.connection_pool.make_connection()
            try:
                await self._serve(connection)
            except* LOST as errors:
                self._node.note(errors.exceptions[0])
                self._nodes.look_soon()
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
            self._open, self._changed = True, dict.fromkeys((*self._channels, self._probe))
            self._wake.set()
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
            changed, self._changed = self._changed, {}
            added, removed = [], []
            for name in changed:
                wanted = name in self._channels or name == self._probe
                if wanted and name not in self._asked:
                    added.append(name)
                elif not wanted and name in self._asked:
                    removed.append(name)
            self._asked.update(added)
            self._asked.difference_update(removed)
            self.confirmed.difference_update(removed)
            for name in removed:
                self._unsubscribing[name] = self._unsubscribing.get(name, 0) + 1
            for word, names in zip(self._words, (added, removed), strict=True):
                for some in self._portions(names):
                    async with asyncio.timeout(SEND_S):
                        await connection.send_command(word, *some, check_health=False)

    def _portions(self, names: Sequence[str]) -> Iterable[Sequence[str]]:
        """Split names into what a command takes: on a cluster, names of one slot. The probe is in the last command."""
        by_slot: dict[int, list[str]] = {}
        for name in names:
            by_slot.setdefault(self._nodes.slot_of(name) if name != self._probe else -1, []).append(name)
        for _, some in sorted(by_slot.items(), reverse=True):
            for start in range(0, len(some), AT_ONCE):
                yield some[start : start + AT_ONCE]

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
                await self._node.client.execute_command(self._publish, self._probe, b"")
                while self._heard_at == silent_since:
                    await real_sleep(0.01)

    async def _take(self, reply: list[bytes]) -> None:
        self._heard_at = monotonic()
        kind, name = reply[0], reply[1].decode()
        if kind == self._message:
            if name != self._probe:
                await self._hand_over(name, reply[2])
        elif kind == self._words[0]:
            self._confirm(name)
        elif name in self._unsubscribing:
            self._unsubscribing[name] -= 1
            if not self._unsubscribing[name]:
                del self._unsubscribing[name]
        else:
            self._dismissed(name)

    def _dismissed(self, name: str) -> None:
        """Subscribe again to a channel whose slot has left the server, unless another server has it by then."""
        self._asked.discard(name)
        self.confirmed.discard(name)
        if name in self._channels:
            self.late.add(name)
        self._nodes.look_soon()
        asyncio.get_running_loop().call_later(RECONNECT_S, self._change, name)

    def _confirm(self, name: str) -> None:
        self.confirmed.add(name)
        for future in self._waiting.pop(name, ()):
            if not future.done():
                future.set_result(None)
        if name == self._probe and not self.connected:  # the last one of a new connection
            self.connected = True
            self._node.note()
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
        self.connected = self._open = False
        self._changed.clear()
        self._unsubscribing.clear()
        self._asked.clear()
        self.confirmed.clear()
        waiting, self._waiting = self._waiting, {}
        for futures in waiting.values():
            for future in futures:
                future.cancel()

    def _own_name(self) -> str:
        """Return the name of a channel that this server has. Raises NoServer if it has none."""
        for _ in range(PROBES_TRIED):
            name = f"sesi:probe:{ids.new_id()}"
            if self._nodes.of(name) is self._node:
                return name
        raise NoServer(str(self._node.address))
