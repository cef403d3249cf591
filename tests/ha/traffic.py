"""Users of a service that is being replaced: they chat, pay, read and write without repeating a failed request."""

import asyncio
import contextlib
import itertools
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import attrs

from tests.faults.people import end_now, wait_for_transcript
from tests.ha.replicas import Replicas
from tests.stack import World
from tools.driving.device import HTTP_TIMEOUT_S, Device
from tools.driving.sesi_client import Refused
from tools.driving.sesi_client.waits import GOING_AWAY

LOST = 1006  # close code of a connection that was cut
SAY_EVERY_S = 0.4
CALL_EVERY_S = 0.1
REFRESH_EVERY_S = 7.0  # ten refreshes a minute are allowed
SHOWN_S = 60.0
CUSTOMERS_READ = (
    "/api/client/auth/me",
    "/api/client/mitras/availability",
    "/api/client/payment/requests",
    "/api/client/transactions",
    "/api/client/chat/sessions",
    "/api/client/chat/pricing",
    "/api/shared/config/app",
    "/api/shared/auth/sessions",
)
MITRAS_READ = ("/api/mitra/auth/me", "/api/mitra/chat-requests", "/api/mitra/chat/history", "/api/shared/auth/sessions")
OPERATORS_READ = ("/internal/auth/me", "/internal/config", "/internal/mitras", "/internal/failed-pairings")
LOST_CONNECTIONS = (OSError, aiohttp.ClientError, TimeoutError)


@attrs.define
class Record:
    """What the users saw. `failed` describes each request without a good answer; times are monotonic seconds."""

    requests: int = 0
    failed: list[str] = attrs.field(factory=list)
    offline: list[str] = attrs.field(factory=list)  # what said that a mitra is offline
    # by client_message_id: the message's id and the moment of its acknowledgement
    messages: dict[str, tuple[str, float]] = attrs.field(factory=dict)
    moments: dict[str, list[float]] = attrs.field(factory=dict)  # of the acknowledgements, by sender
    late_s: list[float] = attrs.field(factory=list)  # from an acknowledgement until the other phone shows the message
    payments: list[str] = attrs.field(factory=list)
    completed: list[str] = attrs.field(factory=list)  # sessions that came to their end
    timers_s: list[float] = attrs.field(factory=list)  # from the end of paid time until the event of it


class Loaded(random.Random):
    """Dice that always fall the same way."""

    def __init__(self, share: float) -> None:
        """`share`: of the longest wait, 0 to 1."""
        super().__init__()
        self._share = share

    def random(self) -> float:
        """Return the share."""
        return self._share


class OneTryClient(Device):
    """A device that records each request without a good answer, and never sends a request again."""

    def __init__(self, world: World, record: Record) -> None:
        http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HTTP_TIMEOUT_S))
        http._retry_connection = False  # aiohttp would repeat a GET whose connection was closed
        super().__init__(world.stack.addresses, heartbeats=True, http=http)
        self._record = record

    async def _once(self, method: str, path: str, body: Any, **more: Any) -> tuple[int, Any]:
        self._record.requests += 1
        try:
            status, answer = await super()._once(method, path, body, **more)
        except (*LOST_CONNECTIONS, ValueError) as error:
            self._record.failed.append(f"{method} {path}: {error!r}")
            raise
        if status >= 500:
            self._record.failed.append(f"{method} {path}: {status} {answer}")
        return status, answer


class OneTryWorld(World):
    """Users who never send a request again."""

    def __init__(self, replicas: Replicas, record: Record) -> None:
        super().__init__(replicas.stack, heartbeats=False)
        self._record = record

    def client(self) -> Device:
        """Return a device without a user."""
        made = OneTryClient(self, self._record)
        self.clients.append(made)
        return made

    async def raw_webhook(self, body: Any, **more: Any) -> tuple[int, Any]:
        """Send a call to the webhook."""
        self._record.requests += 1
        try:
            status, answer = await super().raw_webhook(body, **more)
        except (*LOST_CONNECTIONS, ValueError) as error:
            self._record.failed.append(f"webhook: {error!r}")
            raise
        if status != 200:
            self._record.failed.append(f"webhook: {status} {answer}")
        return status, answer


@attrs.define(kw_only=True)
class Traffic:
    """The users, and what they do until `end`."""

    world: OneTryWorld
    record: Record
    phones: list[Device] = attrs.field(factory=list)
    chats: list[tuple[str, Device, Device]] = attrs.field(factory=list)  # session id, the phones of its parties
    senders: list[str] = attrs.field(factory=list)
    changed: int = 0  # how many changes of networks there were
    going: bool = True
    tasks: list[asyncio.Task[None]] = attrs.field(factory=list)
    seeing: set[asyncio.Task[None]] = attrs.field(factory=set)

    async def phone(self, client: Device, path: str = "chat") -> Device:
        """Connect a device of a user."""
        if client not in self.phones:
            self.phones.append(client)
        return await client.start(path)

    async def mitra(self, name: str) -> Device:
        """Create a mitra, online, whose phone sends heartbeats over its socket."""
        made = await self.world.mitra(name)
        await self.phone(made, "pairing")
        return made

    def spawn(self, work: Callable[[], Awaitable[None]], *, every_s: float) -> None:
        """Do something again and again. After a failure, which is recorded, the next turn begins."""

        async def repeat() -> None:
            while self.going:
                before = len(self.record.failed)
                try:
                    await work()
                except (Refused, *LOST_CONNECTIONS) as error:
                    if len(self.record.failed) == before:  # a client records its own failures
                        self.record.failed.append(f"{work.__qualname__}: {error!r}")
                await asyncio.sleep(every_s)

        self.tasks.append(asyncio.create_task(repeat()))

    # -- what users do

    def talk(self, phone: Device, other: Device, session_id: str) -> None:
        """Send one message after the other, and watch when the other phone shows it."""
        name, numbers = str(phone.user["id"]), itertools.count(1)
        self.senders.append(name)

        async def say() -> None:
            answer = await phone.say(session_id, f"{name} {next(numbers)}")
            at = time.monotonic()
            self.record.messages[answer["client_message_id"]] = answer["id"], at
            self.record.moments.setdefault(name, []).append(at)
            task = asyncio.create_task(self._see(other, session_id, answer["seq"], at))
            self.seeing.add(task)
            task.add_done_callback(self.seeing.discard)

        self.spawn(say, every_s=SAY_EVERY_S)

    async def _see(self, phone: Device, session_id: str, seq: int, at: float) -> None:
        try:
            await phone.until(lambda: phone.chats.transcripts.whole(session_id) >= seq, timeout=SHOWN_S)
        except TimeoutError:
            self.record.failed.append(f"message {seq} of {session_id} was not shown")
        self.record.late_s.append(time.monotonic() - at)

    def read(self, client: Device, paths: tuple[str, ...]) -> None:
        """Read one list after the other."""
        turns = itertools.cycle(paths)

        async def get() -> None:
            await client.get(next(turns))

        self.spawn(get, every_s=CALL_EVERY_S)

    def watch_status(self, mitra: Device) -> None:
        """Read whether the mitra is online."""

        async def look() -> None:
            if not (await mitra.get("/api/mitra/status"))["is_online"]:
                self.record.offline.append(f"GET /api/mitra/status of {mitra.user['id']}")

        self.spawn(look, every_s=CALL_EVERY_S * 5)

    def write(self, customer: Device) -> None:
        """Change the name, make and abandon a payment request, and refresh the tokens."""

        async def change() -> None:
            await customer.call("PATCH", "/api/client/auth/profile", {"display_name": "Sari"})
            payment = await self.world.request(customer)
            await customer.post(f"/api/client/payment/requests/{payment['payment_request_id']}/abandon")

        self.spawn(change, every_s=CALL_EVERY_S)
        self.spawn(customer.refresh, every_s=REFRESH_EVERY_S)

    def pay(self) -> None:
        """Let one new customer after the other pay and leave the search."""

        async def one() -> None:
            customer = await self.world.customer()
            payment = await self.world.request(customer)
            _, answer = await self.world.webhook(payment)
            assert answer["processing_result"] == "confirmed"
            self.record.payments.append(payment["payment_request_id"])
            await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})

        self.spawn(one, every_s=CALL_EVERY_S * 5)

    async def whole_sessions(self, mitra: Device) -> None:
        """Let one new customer after the other have a whole session with this mitra."""
        desk = await self.phone(mitra)

        async def one() -> None:
            customer = await self.world.customer()
            phone = await customer.start("chat")
            try:
                session_id = await self.world.session(customer, mitra)
                await phone.say(session_id, "halo")
                await end_now(self.world, [session_id])
                began = time.monotonic()
                for side in (phone, desk):
                    await side.wait("session_expired", where=lambda f: f["session"]["id"] == session_id)
                self.record.timers_s.append(time.monotonic() - began)
                for client in (customer, mitra):
                    await client.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sampai jumpa"})
                await phone.wait("session_completed", where=lambda f: f["session"]["id"] == session_id)
                self.record.completed.append(session_id)
            finally:
                await phone.stop()

        self.spawn(one, every_s=CALL_EVERY_S * 5)

    async def change_network(self) -> None:
        """Let the next phone of a chat lose its connection and connect again, perhaps to another process than before.

        Each in its turn, because a phone that loses its connections one after the other waits longer than a deploy
        explains.
        """
        phones = [one for _, one, _ in self.chats] + [other for _, _, other in self.chats]
        await phones[self.changed % len(phones)].cut()
        self.changed += 1

    async def end(self) -> None:
        """Let every user finish what they do; the phones stay connected until the last message is shown."""
        self.going = False
        await asyncio.gather(*self.tasks)
        await asyncio.gather(*self.seeing)

    # -- afterwards

    @property
    def sessions(self) -> list[str]:
        """The ids of the sessions in which both sides write all the time."""
        return [session_id for session_id, _, _ in self.chats]

    async def phones_show_what_is_stored(self) -> None:
        """Wait until all phones of the chats show what is stored."""
        for session_id, *phones in self.chats:
            for phone in phones:
                await wait_for_transcript(self.world, phone, session_id)

    def odd_ends(self) -> list[str]:
        """Return the ends of sockets that neither the stop of a process nor a change of network explains."""
        ends = [end for phone in self.phones for one in phone.connections.values() for end in one._ended]
        return [end for end in ends if not re.search(rf"close code ({GOING_AWAY}|{LOST}) after (?!0\.0)", end)]


@contextlib.asynccontextmanager
async def traffic(replicas: Replicas, *, pairs: int, worst: bool = False) -> AsyncIterator[Traffic]:
    """Run `pairs` chats in which both sides write, payments, whole sessions, and requests of all kinds.

    With `worst`, one phone of each pair connects again at once, and the other as late as it may.
    """
    record = Record()
    made = Traffic(world=OneTryWorld(replicas, record), record=record)
    try:
        for n in range(pairs):
            customer, mitra = await made.world.customer(f"Dewi {n}"), await made.mitra(f"Ayu {n}")
            session_id = await made.world.session(customer, mitra, duration_minutes=60)
            if worst:
                customer.dice, mitra.dice = Loaded(n % 2), Loaded(1 - n % 2)
            phone, desk = await made.phone(customer), await made.phone(mitra)
            made.chats.append((session_id, phone, desk))
            made.talk(phone, desk, session_id)
            made.talk(desk, phone, session_id)
            made.read(customer, CUSTOMERS_READ)
            made.read(mitra, MITRAS_READ)
            made.watch_status(mitra)
        made.write(await made.world.customer())
        made.pay()
        await made.whole_sessions(await made.mitra("Ani"))
        made.read(await made.world.operator(), OPERATORS_READ)
        yield made
    finally:
        for task in (*made.tasks, *made.seeing):
            task.cancel()
        for phone in made.phones:
            await phone.stop()
