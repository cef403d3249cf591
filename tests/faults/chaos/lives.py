"""Simulated customers and mitras who go through whole paid sessions while faults happen.

They record what the service has promised them.
"""

import asyncio
import collections
import contextlib
import itertools
import random
import time
from typing import Any

import aiohttp
import attrs

from core.base import ids
from tests.faults import people as app
from tests.faults.chaos.library import LibraryClient, PhoneHost
from tests.faults.chaos.phones import ChaosPhone, ReferencePhone
from tests.faults.service import Service
from tests.stack import CALLBACK_TOKEN, World
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

WEBHOOK = "/api/shared/payment/webhooks/gateway"
RUNNING = "/api/mitra/chat-requests/sessions/active-with-unread"
OVER = ("completed", "cancelled", "failed")
ENDED = ("SESSION_NOT_ACTIVE", "NOT_FOUND", "SESSION_NOT_CLOSABLE", "SESSION_NOT_EXTENDABLE", "EXTENSION_PENDING")


@attrs.frozen(kw_only=True)
class Ack:
    """A message that the service has acknowledged."""

    session_id: str
    sender_id: str
    client_message_id: str
    id: str
    seq: int
    content: str


@attrs.frozen(kw_only=True)
class Interval:
    """That an account, or a customer and a mitra, were blocked from `since` to `until` (wall clock)."""

    whom: tuple[str, ...]
    since: float
    until: float


@attrs.frozen(kw_only=True)
class Given:
    """A refund of earned money that the service has acknowledged. `is_once`: no repeat may have made another one."""

    id: str
    reason: str
    amount: int
    is_once: bool


@attrs.define
class Notes:
    """The records of all users of a run."""

    acks: list[Ack] = attrs.field(factory=list)
    counts: collections.Counter[str] = attrs.field(factory=collections.Counter)
    violations: list[str] = attrs.field(factory=list)
    phones: list[ChaosPhone] = attrs.field(factory=list)
    calls_sent: set[str] = attrs.field(factory=set)
    calls_answered: set[str] = attrs.field(factory=set)
    reports: dict[tuple[str, str], str] = attrs.field(factory=dict)  # (session, party) -> reason
    resolved: dict[str, str] = attrs.field(factory=dict)  # report -> resolution
    pair_blocks: list[Interval] = attrs.field(factory=list)
    account_blocks: list[Interval] = attrs.field(factory=list)
    ever_blocked: set[str] = attrs.field(factory=set)  # customers that an operator has blocked
    reasons: set[str] = attrs.field(factory=set)  # of the refunds that were asked for
    given: list[Given] = attrs.field(factory=list)
    recess: bool = False  # while set, mitras accept no requests
    all_stay: bool = False  # from now on no mitra goes offline by choice

    def violation(self, what: str) -> None:
        """Record a violation."""
        self.violations.append(what)


class Watched(Device):
    """A client that records answers that must never occur: every 5xx but 503."""

    notes: Notes

    async def _once(self, method: str, path: str, body: Any, **more: Any) -> tuple[int, Any]:
        status, answer = await super()._once(method, path, body, **more)
        if status >= 500 and status != 503:
            self.notes.violation(f"{status} for {method} {path}: {answer}")
        return status, answer


class ChaosWorld(World):
    """The users of a run, distributed over the processes."""

    def __init__(self, service: Service, notes: Notes) -> None:
        super().__init__(service, heartbeats=False)  # the phones send heartbeats over their sockets
        self.service = service
        self.notes = notes
        self._http: aiohttp.ClientSession | None = None

    def client(self) -> Device:
        """Return a device without a user."""
        made = Watched(self.service.at(len(self.clients)), heartbeats=True)
        made.notes = self.notes
        self.clients.append(made)
        return made

    async def join_customer(self, name: str) -> tuple[Device, ChaosPhone]:
        """Create a customer with a phone, which stays until the end of the run. Raises Refused, OSError."""
        client = await self.customer(name)
        return client, await self._reference_phone(client)

    async def join_mitra(self, name: str) -> tuple[Device, ChaosPhone]:
        """Create a mitra with a phone, which stays until the end of the run. Raises Refused, OSError."""
        client = await self.mitra(name)
        return client, await self._reference_phone(client)

    async def _reference_phone(self, client: Device) -> ReferencePhone:
        made = await ReferencePhone(client).start()
        self.notes.phones.append(made)
        return made

    async def raw_webhook(self, body: Any, *, token: str | None = CALLBACK_TOKEN) -> tuple[int, Any]:
        """Send one webhook call to one of the api processes, with a mark in the body, and record it."""
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10))
        mark = ids.new_id()
        self.notes.calls_sent.add(mark)
        url = self.service.at(len(self.notes.calls_sent)).public + WEBHOOK
        headers = {"X-Callback-Token": token or ""}
        async with self._http.post(url, headers=headers, json={**body, "mark": mark}) as answer:
            found = answer.status, await answer.json(content_type=None)
        self.notes.calls_answered.add(mark)
        return found

    async def close(self) -> None:
        """Close all phones and all connections."""
        for phone in self.notes.phones:
            await phone.stop()
        if self._http is not None:
            await self._http.close()
        for client in self.clients:
            await client.close()


class LibraryWorld(ChaosWorld):
    """The users of a run whose phones are apps of the client library."""

    def __init__(self, service: Service, notes: Notes) -> None:
        super().__init__(service, notes)
        self._host = PhoneHost(notes.violation)
        self._joined = itertools.count(1)
        self._start: asyncio.Task[PhoneHost] | None = None

    async def join_customer(self, name: str) -> tuple[Device, ChaosPhone]:
        app = await self._app("customer", name)
        await app.sign_in_anonymously(name)
        return self._with_phone(app)

    async def join_mitra(self, name: str) -> tuple[Device, ChaosPhone]:
        number, address = await self.mitra_account(name), self.new_address()
        app = await self._app("mitra", name, **{"X-Forwarded-For": address})
        await app.sign_in_as_mitra(number, self.stack.inbox.code_of)
        await app.post("/api/mitra/status/online")
        return self._with_phone(app)

    async def _app(self, role: str, name: str, **headers: str) -> LibraryClient:
        if self._start is None:
            self._start = asyncio.create_task(self._host.start())
        n = next(self._joined)
        other = self.service.at(n + 1).realtime
        app = LibraryClient(self.service.at(n), await self._start, f"{name} ({n})", role, other)
        self.clients.append(app)
        await app.begin(**headers)
        return app

    def _with_phone(self, app: LibraryClient) -> tuple[Device, ChaosPhone]:
        self.notes.phones.append(app.phone)
        return app, app.phone

    async def close(self) -> None:
        await super().close()
        await self._host.stop()


class SimulatedUser:
    """What customers and mitras have in common: they chat, and they record what was acknowledged."""

    def __init__(self, crowd: ChaosWorld, dice: random.Random, name: str) -> None:
        self.crowd = crowd
        self.notes = crowd.notes
        self.dice = dice
        self.name = name
        self._said = 0

    async def pause(self, low: float, high: float) -> None:
        """Wait a random time between `low` and `high` real seconds."""
        await asyncio.sleep(self.dice.uniform(low, high))

    async def talk(self, phone: ChaosPhone, session_id: str, count: int) -> None:
        """Send `count` messages one after the other, as long as the session is active."""
        last = 0
        for _ in range(count):
            self._said += 1
            content = f"{self.name}/{self._said}"
            try:
                ack = await phone.say(session_id, content, timeout=app.INSIST_S)
            except Refused as refused:
                if refused.code not in ENDED:
                    self.notes.violation(f"{self.name} could not send a message: {refused.code}")
                return
            except TimeoutError:
                waited = f"{self.name} got no acknowledgement in {app.INSIST_S} s in {session_id}"
                self.notes.violation(f"{waited}: {await phone.describe()}")
                return
            found = Ack(
                session_id=session_id,
                sender_id=phone.client.user["id"],
                client_message_id=ack["client_message_id"],
                id=ack["id"],
                seq=ack["seq"],
                content=content,
            )
            self.notes.acks.append(found)
            if found.seq <= last:
                self.notes.violation(f"{self.name} was acknowledged {found.seq} after {last} in {session_id}")
            last = found.seq
            if self.dice.random() < 0.5:
                await phone.read(session_id)
            await self.pause(0.0, 0.3)

    async def report(self, client: Device, session_id: str) -> None:
        """Report the other party of a session, perhaps."""
        if self.dice.random() >= 0.2:
            return
        reason = self.dice.choice(("no_answer", "rude", "scam", "other"))
        body = {"reason": reason, "message": f"{self.name} about {session_id}"}
        path = f"/api/shared/chat/sessions/{session_id}/report"
        await app.retry(lambda: client.post(path, body), done=("ALREADY_REPORTED",))
        self.notes.reports[session_id, type(self).__name__.lower()] = reason
        self.notes.counts["reports"] += 1

    async def block(self, client: Device, session: dict[str, Any]) -> None:
        """Block the other party of a session for some seconds, perhaps: the two must not be paired then."""
        if self.dice.random() >= 0.15:
            return
        path = f"/api/shared/chat/sessions/{session['id']}/block"
        await app.retry(lambda: client.post(path))
        since = time.time()
        await self.pause(0.5, 6.0)
        whom = (session["customer"]["id"], session["mitra"]["id"])
        self.notes.pair_blocks.append(Interval(whom=whom, since=since, until=time.time()))
        await app.retry(lambda: client.call("DELETE", path))
        self.notes.counts["blocks between people"] += 1

    async def guarded(self, work: Any) -> None:
        """Run `work`; an exception other than cancellation is a violation."""
        try:
            await work
        except Exception as error:  # any exception would break an app, too
            self.notes.violation(f"{self.name}: {error!r}")


class Customer(SimulatedUser):
    """A customer who pays, searches, chats, says goodbye, and starts again."""

    id = ""

    async def live(self, stop: asyncio.Event) -> None:
        """Run sessions one after the other until `stop` is set; the last one is completed."""
        client, phone = await app.retry(lambda: self.crowd.join_customer(self.name))
        self.id = client.user["id"]
        while not stop.is_set():
            await self.session(client, phone)
            self.notes.counts["lives"] += 1
            await self.pause(0.0, 0.5)

    async def session(self, client: Device, phone: ChaosPhone) -> None:
        """Run one session from the payment request to its end."""
        wish = {"topics": ["kerja"]} if self.dice.random() < 0.3 else {}
        payment = await self.request(client, wish)
        path = f"{app.CREATE}/{payment['payment_request_id']}"
        if self.dice.random() < 0.05:
            await app.retry(lambda: client.post(f"{path}/abandon"))
            self.notes.counts["abandoned"] += 1
            return
        await self.paid(payment)
        if self.dice.random() < 0.08:
            wanted = {"payment_request_id": payment["payment_request_id"]}
            await app.retry(lambda: client.post("/api/client/chat/cancel", wanted), done=("SESSION_NOT_SEARCHING",))
        session_id = await self.search(client, path)
        if session_id is None:
            self.notes.counts["not paired"] += 1
            return
        await self.chat(client, phone, session_id)
        self.notes.counts["sessions"] += 1

    async def request(self, client: Device, wish: dict[str, Any]) -> dict[str, Any]:
        """Create a payment request; wait for a mitra if none is available, and for the end of an operator's block."""
        while True:
            try:
                return await app.request(client, **wish)
            except Refused as error:
                if error.code == "NO_MITRA_AVAILABLE":
                    self.notes.counts["refused for want of mitras"] += 1
                    wish = {**wish, "accept_wait": True}
                elif not self.is_blocked(error):
                    raise
                else:
                    await self.pause(0.2, 0.5)

    def is_blocked(self, error: Refused) -> bool:
        """Return whether a request was refused because an operator has blocked this customer."""
        if error.code != "ACCOUNT_BLOCKED" or self.id not in self.notes.ever_blocked:
            return False
        self.notes.counts["refused while blocked"] += 1
        return True

    async def paid(self, payment: dict[str, Any]) -> None:
        """Send the gateway's webhook calls: once, repeatedly at once, late, or an older state after a newer one."""
        if self.dice.random() < 0.2:
            await self.pause(0.2, 1.0)
        if self.dice.random() < 0.2:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.dice.randint(2, 6)):
                    group.create_task(app.pay(self.crowd, payment))
        else:
            await app.pay(self.crowd, payment)
        if self.dice.random() < 0.2:
            await app.pay(self.crowd, payment, status=self.dice.choice(["EXPIRED", "PENDING", "SETTLED"]))

    async def search(self, client: Device, path: str) -> str | None:
        """Wait for a mitra; return the session's id, or None if the search failed."""
        while True:
            seen = await app.retry(lambda: client.get(path))
            if seen["status"] == "consumed":
                return seen["session_id"]
            if seen["status"] != "confirmed":
                if seen["status"] == "failed_pairing" and seen["failure"] is None:
                    self.notes.violation(f"a failed payment has no cause: {path}")
                return None
            await asyncio.sleep(0.15)

    async def chat(self, client: Device, phone: ChaosPhone, session_id: str) -> None:
        """Chat until the paid time ends, perhaps extend it, then say goodbye or leave without one."""
        about = f"/api/shared/chat/sessions/{session_id}"
        wants_more = self.dice.random() < 0.25
        while True:
            session = await app.retry(lambda: client.get(about))
            if session["status"] != "active":
                break
            await self.talk(phone, session_id, self.dice.randint(1, 4))
            if wants_more:
                wants_more = False
                await self.extend(client, session_id)
        await self.report(client, session_id)
        if self.dice.random() < 0.8:
            await app.goodbye(client, session_id)
        await self.block(client, session)
        while session["status"] not in OVER:
            await asyncio.sleep(0.2)
            session = await app.retry(lambda: client.get(about))

    async def extend(self, client: Device, session_id: str) -> None:
        """Buy an extension; the mitra answers it, or it times out."""
        try:
            payment = await app.request(client, is_extension=True, session_id=session_id)
        except Refused as refused:
            if refused.code not in ENDED and not self.is_blocked(refused):
                raise
            return
        await self.paid(payment)
        self.notes.counts["extensions"] += 1


class Mitra(SimulatedUser):
    """A mitra who accepts requests, chats with every customer, answers extensions, and says goodbye."""

    id = ""
    went_offline = 0
    is_away = False  # by choice, for a moment

    async def live(self, stop: asyncio.Event) -> None:
        """Run until cancelled at the end of the run: the customers stop first."""
        client, phone = await app.retry(lambda: self.crowd.join_mitra(self.name))
        self.id = client.user["id"]
        chats: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while not stop.is_set():
                await self.look_at_requests(client)
                await self.answer_extensions(client, phone)
                for item in (await app.retry(lambda: client.get(RUNNING)))["items"]:
                    if item["id"] not in chats:
                        chats[item["id"]] = group.create_task(self.guarded(self.chat(client, phone, item["id"])))
                if self.dice.random() < 0.02 and not self.notes.all_stay:
                    self.went_offline += 1
                    self.is_away = True
                    await app.retry(lambda: client.post("/api/mitra/status/offline"))
                    await self.pause(0.1, 0.5)
                    await app.retry(lambda: client.post("/api/mitra/status/online"))
                    self.is_away = False
                await self.pause(0.1, 0.4)

    async def look_at_requests(self, client: Device) -> None:
        """Accept most requests, reject some, ignore some."""
        refusals = ("REQUEST_TAKEN", "REQUEST_CLOSED", "MITRA_AT_CAPACITY", "MITRA_OFFLINE", "NOT_FOUND")
        for item in (await app.retry(lambda: client.get("/api/mitra/chat-requests"), timeout=60))["items"]:
            luck = self.dice.random()
            if luck < 0.1 or self.notes.recess:
                continue
            answer = "reject" if luck < 0.15 else "accept"
            path = f"/api/mitra/chat-requests/{item['session_id']}/{answer}"
            await app.retry(lambda path=path: client.post(path), done=refusals)

    async def answer_extensions(self, client: Device, phone: ChaosPhone) -> None:
        """Approve or reject extensions; let some time out."""
        while (extension := await phone.next_extension()) is not None:
            if self.dice.random() < 0.3:
                continue
            path = f"/api/shared/chat/sessions/{extension['session_id']}/extensions/{extension['id']}/answer"
            body = {"accept": self.dice.random() < 0.7}
            await app.retry(lambda path=path, body=body: client.post(path, body), done=("EXTENSION_RESOLVED",))

    async def chat(self, client: Device, phone: ChaosPhone, session_id: str) -> None:
        """Chat in one session until it ends."""
        about = f"/api/shared/chat/sessions/{session_id}"
        while True:
            session = await app.retry(lambda: client.get(about))
            if session["status"] != "active":
                break
            await self.talk(phone, session_id, self.dice.randint(1, 3))
            await self.pause(0.0, 0.6)
        await self.report(client, session_id)
        if self.dice.random() < 0.8:
            with contextlib.suppress(Refused):
                await app.goodbye(client, session_id)
        await self.block(client, session)
