"""Loads that a real service meets (`--scenario`): ten thousand sockets, a thousand mitras, five hundred chats."""

import asyncio
import collections
import json
import random
import resource
import time
from collections.abc import Callable

import aiohttp
import attrs

from core.base.actor import UserType
from tests.faults import people as app
from tests.faults.chaos.lives import Notes
from tests.faults.chaos.multitude import User, active_sessions, users
from tests.faults.chaos.raw_socket import RawSocket
from tests.faults.service import Service
from tests.stack import CADENCE_S, Stack, World, new_id
from tools.driving.device import Device
from tools.driving.sesi_client import Reconnection

BACK_S = 45.0
HUB_MIB = 600
ANSWER_S = 5.0
CONNECT_S = 20.0
AT_ONCE = 200  # concurrent connects while the crowd gathers
Say = Callable[[str], None]


def rss_mib(pid: int) -> float:
    """Return a process's resident memory in MiB."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def more_files() -> None:
    """Raise the limit of open files as far as allowed; child processes inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@attrs.define(eq=False)
class RawDevice:
    """An app with one raw socket, which reconnects like the Python client."""

    user: User
    port: int
    path: str = "/ws/chat"
    dice: random.Random = attrs.field(factory=random.Random)
    socket: RawSocket | None = None
    there: asyncio.Event = attrs.field(factory=asyncio.Event)
    last_seq: dict[str, int] = attrs.field(factory=dict)
    messages: list[tuple[int, str]] = attrs.field(factory=list)
    requests: list[str] = attrs.field(factory=list)
    lives: int = 0
    back_at: float = 0.0
    ended: collections.Counter[str] = attrs.field(factory=collections.Counter)
    _changed: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def live(self) -> None:
        """Stay connected until cancelled."""
        loop = asyncio.get_running_loop()
        reconnection = Reconnection(self.dice)
        while True:
            self._changed.clear()
            socket, connected_at = None, loop.time()
            try:
                _, socket = await loop.create_connection(
                    lambda: RawSocket(self.path, self.user.token, self._hear, self._lost), "127.0.0.1", self.port
                )
                self.socket = socket
                async with asyncio.timeout(CONNECT_S):
                    await self._changed.wait()
                if self.there.is_set():
                    connected_at = loop.time()
                    self._changed.clear()
                    await self._changed.wait()
                self.ended[str(socket.code)] += 1
            except (OSError, TimeoutError) as error:
                self.ended[type(error).__name__] += 1
            if socket is not None:
                socket.abort()
            code = socket.code if socket is not None else None
            await asyncio.sleep(reconnection.wait(code, lived_s=loop.time() - connected_at))

    def _lost(self) -> None:
        self.there.clear()
        self._changed.set()

    def _hear(self, payload: bytes) -> None:
        frame = json.loads(payload)
        kind = frame["type"]
        if kind == "auth_ok":
            self.lives += 1
            self.back_at = time.monotonic()
            for session in frame.get("sessions", ()):
                self._ask(session["id"], session["last_seq"])
            self.there.set()
            self._changed.set()
        elif kind == "sync":
            for message in frame["messages"]:
                self.messages.append((message["seq"], message["content"]))
                self.last_seq[frame["session_id"]] = message["seq"]
        elif kind == "message":
            self._ask(frame["message"]["session_id"], frame["message"]["seq"])
        elif kind == "error" and "ref" in frame:  # the service was unavailable for a moment
            asyncio.get_running_loop().call_later(1.0, self._ask, frame["ref"], 1)
        elif kind == "chat_request":
            self.requests.append(frame["request"]["session_id"])

    def _ask(self, session_id: str, last_seq: int) -> None:
        known = self.last_seq.setdefault(session_id, 0)
        if last_seq > known and self.socket is not None:
            self.socket.say({"type": "sync", "ref": session_id, "session_id": session_id, "after": known})


async def _all_there(devices: list[RawDevice], limit: float) -> float:
    """Wait until every device is connected; return how many seconds that took."""
    began = time.monotonic()
    async with asyncio.timeout(limit):
        for device in devices:
            await device.there.wait()
    return time.monotonic() - began


async def sockets(notes: Notes, say: Say, *, count: int = 10_000, spoken_to: int = 500) -> None:
    """Drop all idle sockets at once. They reconnect with the client's jitter, and messages sent in between arrive."""
    more_files()
    stack = await asyncio.to_thread(Stack)
    lives: list[asyncio.Task[None]] = []
    try:
        customers = await users(stack, UserType.CUSTOMER, count)
        mitras = await users(stack, UserType.MITRA, spoken_to)
        ids = await active_sessions(stack, list(zip(customers[:spoken_to], mitras, strict=True)))
        devices = [RawDevice(user, stack.ports["REALTIME"]) for user in customers]
        pid = stack.processes["realtime"].pid
        empty = rss_mib(pid)
        began = time.monotonic()
        for start in range(0, count, AT_ONCE):
            part = devices[start : start + AT_ONCE]
            lives += [asyncio.create_task(device.live()) for device in part]
            await _all_there(part, 60)
        say(f"{count} sockets in {time.monotonic() - began:.1f} s; hub {rss_mib(pid):.0f} MiB, {empty:.0f} when empty")
        for device in devices:
            assert device.socket is not None
            device.socket.abort()
        dropped = time.monotonic()
        await asyncio.sleep(0)
        async with asyncio.TaskGroup() as group:
            told = group.create_task(_tell(stack, mitras, ids))
            back = group.create_task(_back(devices))
        if not back.result():
            notes.violation(f"not all sockets were back {BACK_S:.0f} s after the drop")
        took, hub = time.monotonic() - dropped, rss_mib(pid)
        late = sorted(device.back_at - dropped for device in devices)
        half, most = late[count // 2], late[count * 99 // 100]
        ends = sum((device.ended for device in devices), collections.Counter())
        say(
            f"all dropped at once: half were back after {half:.1f} s, 99 % after {most:.1f} s, all after {late[-1]:.1f} s"
        )
        say(
            f"hub {hub:.0f} MiB, {took:.1f} s until all were back and all messages sent; connections ended: {dict(ends)}"
        )
        if hub > HUB_MIB:
            notes.violation(f"the hub has {hub:.0f} MiB")
        for device, words in zip(devices[:spoken_to], told.result(), strict=True):
            await _hears(notes, device, words)
        say(f"{spoken_to} messages sent during the drop have arrived")
    finally:
        for life in lives:
            life.cancel()
        for device in devices:
            if device.socket is not None:
                device.socket.abort()
        await asyncio.to_thread(stack.close)


async def _back(devices: list[RawDevice]) -> bool:
    try:
        async with asyncio.timeout(BACK_S):
            while not all(device.there.is_set() and device.lives >= 2 for device in devices):
                await asyncio.sleep(0.1)
    except TimeoutError:
        return False
    return True


async def _hears(notes: Notes, device: RawDevice, words: str) -> None:
    try:
        async with asyncio.timeout(5):
            while not device.messages:
                await asyncio.sleep(0.05)
    except TimeoutError:
        notes.violation("a message sent while its reader was disconnected never arrived")
        return
    if device.messages != [(1, words)]:
        notes.violation(f"sent once, received {device.messages}")


async def _tell(stack: Stack, mitras: list[User], ids: list[str]) -> list[str]:
    """Send one message from each mitra over REST; return the contents."""
    words = [new_id() for _ in ids]
    turns = asyncio.Semaphore(20)
    async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as group:

        async def one(mitra: User, session_id: str, content: str) -> None:
            url = f"{stack.addresses.public}/api/shared/chat/sessions/{session_id}/messages"
            body = {"client_message_id": new_id(), "content": content}
            headers = {"Authorization": f"Bearer {mitra.token}"}

            async def post() -> None:
                async with http.post(url, json=body, headers=headers) as answer:
                    if answer.status != 201:
                        raise ConnectionError(answer.status)

            async with turns:
                await app.retry(post)

        for mitra, session_id, content in zip(mitras, ids, words, strict=True):
            group.create_task(one(mitra, session_id, content))
    return words


async def _send_heartbeats(devices: list[RawDevice]) -> None:
    """Send a heartbeat from each connected device at the app's cadence, until cancelled."""
    while True:
        await asyncio.sleep(CADENCE_S)
        for device in devices:
            if device.there.is_set() and device.socket is not None:
                device.socket.say({"type": "heartbeat"})


async def mitras(notes: Notes, say: Say, *, count: int = 1000) -> None:
    """Invite a thousand mitras, who all accept at once: one wins, and the others are informed soon."""
    more_files()
    stack = await asyncio.to_thread(Stack)
    world = World(stack)
    lives: list[asyncio.Task[None]] = []
    try:
        crowd = await users(stack, UserType.MITRA, count, online=True)
        devices = [RawDevice(user, stack.ports["REALTIME"], "/ws/pairing") for user in crowd]
        lives = [asyncio.create_task(device.live()) for device in devices]
        lives.append(asyncio.create_task(_send_heartbeats(devices)))
        await _all_there(devices, 60)
        customer = await world.customer()
        payment = await world.request(customer)
        began = time.monotonic()
        await app.pay(world, payment)
        async with asyncio.timeout(20):
            while not all(device.requests for device in devices):
                await asyncio.sleep(0.005)
        say(
            f"{count} mitras got the request {(time.monotonic() - began) * 1000:.0f} ms after the start of the gateway's call"
        )
        took, answers = await _accept_all(stack, crowd, devices[0].requests[0])
        won, lost = answers.count((200, None)), answers.count((409, "REQUEST_TAKEN"))
        say(f"{count} accept at once: {won} won, {lost} were too late, last answer after {took:.2f} s")
        if (won, lost) != (1, count - 1) or took > ANSWER_S:
            notes.violation(f"{won} won, {lost} of {count} lost in {took:.2f} s: {set(answers)}")
        books = await world.audit()
        for violation in books["violations"]:
            notes.violation(str(violation))
    finally:
        for life in lives:
            life.cancel()
        for client in world.clients:
            await client.close()
        await asyncio.to_thread(stack.close)


async def _accept_all(stack: Stack, crowd: list[User], session_id: str) -> tuple[float, list[tuple[int, str | None]]]:
    url = f"{stack.addresses.public}/api/mitra/chat-requests/{session_id}/accept"
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as http:

        async def accept(user: User) -> tuple[int, str | None]:
            while True:  # 512 requests may be in progress; the others are refused, and an app retries them
                async with http.post(url, headers={"Authorization": f"Bearer {user.token}"}) as answer:
                    body = await answer.json()
                if answer.status != 503:
                    return answer.status, body.get("error", {}).get("code")
                await asyncio.sleep(int(answer.headers["Retry-After"]))

        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(accept(user)) for user in crowd]
        return time.monotonic() - began, [task.result() for task in tasks]


async def talk(notes: Notes, say: Say, *, count: int = 500, seconds: float = 60) -> None:
    """Chat on both sides of all sessions while every process is restarted in turn."""
    more_files()
    service = await asyncio.to_thread(Service, counts={"api": 2, "realtime": 2, "jobs": 2})
    world = World(service)
    phones: list[Device] = []
    try:
        sides = [await users(service, kind, count) for kind in (UserType.CUSTOMER, UserType.MITRA)]
        ids = await active_sessions(service, list(zip(*sides, strict=True)))
        for n, user in enumerate(user for pair in zip(*sides, strict=True) for user in pair):
            client = Device(service.at(n))
            client.access_token, client.user = user.token, {"id": user.id}
            world.clients.append(client)
            phones.append(await client.start("chat"))
        stop = asyncio.Event()
        dice = random.Random(1)
        acks: list[tuple[str, int, str]] = []

        async def speak(phone: Device, session_id: str) -> None:
            while not stop.is_set():
                await asyncio.sleep(dice.uniform(0, 2 * count / 50))
                words = new_id()
                acks.append((session_id, (await phone.say(session_id, words))["seq"], words))

        async with asyncio.TaskGroup() as group:
            for n, phone in enumerate(phones):
                group.create_task(speak(phone, ids[n // 2]))
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                for key in list(service.nodes):
                    await asyncio.to_thread(service.restart_cleanly, key)
                    await asyncio.sleep(1)
            stop.set()
        rows = await service.sql("SELECT session_id::text, seq, content FROM chat_messages")
        stored = {(row["session_id"], row["seq"], row["content"]) for row in rows}
        if len(acks) != len(stored) or set(acks) != stored:
            notes.violation(f"{len(acks)} messages acknowledged, {len(stored)} stored")
        for n, phone in enumerate(phones):
            try:
                await app.wait_for_transcript(world, phone, ids[n // 2], timeout=20)
            except AssertionError:
                notes.violation(f"a phone's transcript differs from the database: {ids[n // 2]}")
        say(f"{count} sessions, {len(acks)} messages, {seconds:.0f} s of restarts in turn: transcripts compared")
    finally:
        for phone in phones:
            await phone.stop()
        for client in world.clients:
            await client.close()
        await asyncio.to_thread(service.close)


SCENARIOS = {"sockets": sockets, "mitras": mitras, "talk": talk}
