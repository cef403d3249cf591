"""The Python client under the vectors: its calls and its state by the names of docs/clients.md."""

import asyncio
import copy
import random
from collections.abc import Callable
from typing import Any, cast

from tests.vectors.world import World
from tools.driving.client import Addresses, Client, Refused
from tools.driving.device_storage import DeviceStorage, MemoryStore
from tools.driving.phone import Phone, SignedOut
from tools.driving.phone.reconnection import REVOKED
from tools.driving.service_clock import ServiceClock

ADDRESSES = Addresses(public="http://api.test", internal="http://internal.test", realtime="ws://sockets.test")
PATHS = {"/ws/chat": "chat", "/ws/pairing": "pairing"}


class FragileStore:
    """A store that survives a kill and can be made to fail."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.fails = False

    def _check(self) -> None:
        if self.fails:
            raise OSError("the disk is full")

    def get(self, key: str) -> Any:
        """Return a value, or None."""
        self._check()
        return copy.deepcopy(self.values.get(key))

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        self._check()
        self.values[key] = copy.deepcopy(value)

    def remove(self, key: str) -> None:
        """Remove a value, if it is there."""
        self._check()
        self.values.pop(key, None)


class FixedDice(random.Random):
    """Dice that always show the same number."""

    value = 0.5

    def random(self) -> float:
        """Return the vector's number."""
        return self.value


class PythonClient:
    """One device of a user: a `Client` and a `Phone` for each path."""

    def __init__(self, world: World, store: FragileStore, dice: FixedDice, role: str, paths: list[str]) -> None:
        loop = asyncio.get_running_loop()
        self._store = store
        self._storage = DeviceStorage(store)
        clock = ServiceClock(monotonic=loop.time)
        http = cast(Any, world)
        self._client = Client(ADDRESSES, http=http, storage=self._storage, clock=clock, dice=dice)
        self._role = role
        self._phones = {path: Phone(self._client, PATHS[path]) for path in paths}
        self._shown: dict[str, dict[str, Any]] = {}  # own messages of this run that are not in a transcript, by number
        self._tasks: list[asyncio.Task[None]] = []
        self._number = 0
        self.outcomes: dict[str, str | None] = {}  # name of a call -> error code, None if it succeeded

    def sign_in(self, user: dict[str, Any], access: str, refresh: str) -> None:
        """Store tokens as a sign-in does."""
        self._client._keep({"access_token": access, "refresh_token": refresh, self._role: user})

    async def abandon(self) -> None:
        """End as a killed process does: nothing is stored from here on."""
        self._storage._store = MemoryStore()
        for task in self._tasks:
            task.cancel()
        for phone in self._phones.values():
            await phone.stop()

    def call(self, name: str, arguments: dict[str, Any], label: str | None) -> None:
        """Begin a call of the app; its outcome is kept under `label`."""
        method: Callable[..., Any] = getattr(self, f"_{name}")

        async def run() -> None:
            code: str | None = None
            try:
                await method(**arguments)
            except Refused as refused:
                code = refused.code
            except (OSError, SignedOut):
                code = "NETWORK"
            if label is not None:
                self.outcomes[label] = code

        self._tasks.append(asyncio.create_task(run()))

    async def _start(self) -> None:
        if self._client.restore():
            for phone in self._phones.values():
                await phone.start()

    async def _send(self, session_id: str, content: str, metadata: dict[str, Any] | None = None) -> None:
        self._number += 1
        label = str(self._number)
        self._shown[label] = {"session_id": session_id, "content": content, "state": "sending"}
        try:
            await self._phones["/ws/chat"].say(session_id, content, metadata=metadata, timeout=3600)
            del self._shown[label]
        except Refused as refused:
            self._shown[label] |= {"state": "refused", "error": refused.code}

    async def _request(self, method: str, path: str) -> None:
        await self._client.call(method, path)

    async def _mark_read(self, session_id: str) -> None:
        await self._phones["/ws/chat"].read(session_id)

    async def _accept(self, session_id: str) -> None:
        await self._phones["/ws/pairing"].accept(session_id)

    async def _go_online(self) -> None:
        phone = self._phones["/ws/pairing"]
        status = await phone.presence.set_online(online=True)
        phone.send_heartbeats(status["heartbeat_cadence_seconds"])

    async def _receive_push(self, **push: str) -> None:
        await self._phones["/ws/pairing"].presence.receive_push(push)

    async def _sign_out(self) -> None:
        for phone in self._phones.values():
            await phone.stop()
        self._shown.clear()
        await self._client.sign_out()

    def state(self) -> dict[str, Any]:
        """Return what the app shows."""
        chats: dict[str, Any] = {}
        chat = self._phones.get("/ws/chat")
        if chat is not None:
            chats = {session_id: self._chat(chat, session_id) for session_id in chat.sessions}
        desk = self._phones.get("/ws/pairing")
        signed_out = self._signed_out()
        connected = all(phone.connected for phone in self._phones.values())
        state: dict[str, Any] = {
            "connection": "stopped" if signed_out else "open" if connected else "connecting",
            "signed_out": signed_out,
            "saved": self._storage.saved,
            "stored": list(self._store.values),
            "chats": chats,
            "now": self._client.clock.now().isoformat(timespec="seconds").replace("+00:00", "Z"),
        }
        if desk is not None:
            state["requests"] = list(desk.requests.open)
            state["closed_requests"] = desk.requests.closed
            state["online"] = desk.presence.is_online
        return state

    def _chat(self, phone: Phone, session_id: str) -> dict[str, Any]:
        own = self._client.user.get("id")
        messages = [
            {"content": one["content"], "state": one["status"], "own": one["sender_id"] == own}
            for one in phone.transcript(session_id)
        ]
        unsent = [{**one, "own": True} for one in self._shown.values() if one["session_id"] == session_id]
        shown = {one["content"] for one in unsent}
        restored = [
            {"content": one["content"], "state": "sending", "own": True}
            for one in phone.chat.outbox.pending()
            if one["session_id"] == session_id and one["content"] not in shown
        ]
        return {"status": phone.sessions[session_id]["status"], "messages": [*messages, *unsent, *restored]}

    def _signed_out(self) -> str | None:
        if self._client.access_token is not None:
            return None
        for phone in self._phones.values():
            error = phone.ended()
            if isinstance(error, SignedOut):
                return "revoked" if error.args[0] == REVOKED else "expired"
        return "self"
