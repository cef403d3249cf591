"""The Python client under the vectors: its calls and its state by the names of docs/clients.md."""

import asyncio
import copy
import random
from collections.abc import Callable
from typing import Any, cast

from tests.vectors.world import World
from tools.driving.sesi_client import Client, MemoryStore, SesiError
from tools.driving.sesi_client.service_clock import ServiceClock

API, SOCKETS = "http://api.test", "ws://sockets.test"


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
    """One device of a user."""

    def __init__(self, world: World, store: FragileStore, dice: FixedDice, role: str, paths: list[str]) -> None:
        loop = asyncio.get_running_loop()
        self._store = store
        self._client = Client(
            role=cast(Any, role),
            api=API,
            sockets=SOCKETS,
            http=cast(Any, world),
            storage=store,
            clock=ServiceClock(monotonic=loop.time),
            dice=dice,
        )
        self._role = role
        self._paths = [path.removeprefix("/ws/") for path in paths]
        self._tasks: list[asyncio.Task[None]] = []
        self.outcomes: dict[str, str | None] = {}  # name of a call -> error code, None if it succeeded

    def sign_in(self, user: dict[str, Any], access: str, refresh: str) -> None:
        """Store tokens as a sign-in does."""
        self._client._keep({"access_token": access, "refresh_token": refresh, self._role: user})

    async def abandon(self) -> None:
        """End as a killed process does: nothing is stored from here on."""
        self._client.storage._store = MemoryStore()
        for task in self._tasks:
            task.cancel()
        await self._client.close()

    def hide(self) -> None:
        """Take the app to the background."""
        self._client.hide()

    def wake(self, *, online: bool) -> None:
        """Bring the app to the front, or the network back."""
        self._client.wake(online=online)

    def call(self, name: str, arguments: dict[str, Any], label: str | None) -> None:
        """Begin a call of the app; its outcome is kept under `label`."""
        method: Callable[..., Any] = getattr(self, f"_{name}")

        async def run() -> None:
            code: str | None = None
            try:
                await method(**arguments)
            except SesiError as error:
                code = error.code
            if label is not None:
                self.outcomes[label] = code

        self._tasks.append(asyncio.create_task(run()))

    async def _start(self) -> None:
        await self._client.start(*self._paths)

    async def _send(self, session_id: str, content: str, metadata: dict[str, Any] | None = None) -> None:
        self._client.send(session_id, content, metadata)

    async def _request(self, method: str, path: str) -> None:
        await self._client.call(method, path)

    async def _mark_read(self, session_id: str) -> None:
        await self._client.mark_read(session_id)

    async def _typing(self, session_id: str) -> None:
        await self._client.typing(session_id)

    async def _accept(self, session_id: str) -> None:
        await self._client.accept(session_id)

    async def _pay(self, **wish: Any) -> None:
        await self._client.pay(**wish)

    async def _go_online(self) -> None:
        await self._client.go_online()

    async def _receive_push(self, **push: str) -> None:
        await self._client.receive_push(push)

    async def _sign_out(self) -> None:
        await self._client.sign_out()

    def state(self) -> dict[str, Any]:
        """Return what the app shows."""
        client = self._client
        return {
            "connection": client.connection,
            "signed_out": client.signed_out,
            "saved": client.saved,
            "stored": list(self._store.values),
            "chats": {session_id: self._chat(session_id) for session_id in client.sessions},
            "payments": client.payments.known,
            "search": self._search(),
            "search_end": client.search.end,
            "now": client.clock.now().isoformat(timespec="seconds").replace("+00:00", "Z"),
            "requests": list(client.requests.open),
            "closed_requests": client.requests.closed,
            "online": client.presence.is_online,
        }

    def _search(self) -> dict[str, Any] | None:
        session = self._client.search.session
        return None if session is None else {"session_id": session["id"], "asked": session["search"]["asked"]}

    def _chat(self, session_id: str) -> dict[str, Any]:
        chat = self._client.chat(session_id)
        messages = [
            {"content": one.content, "own": one.own, "state": one.state, "error": one.error} for one in chat.messages
        ]
        return {
            "status": chat.session["status"],
            "messages": messages,
            "typing": chat.typing,
            "peer_absent": chat.peer_absent,
            "expires_at": chat.session["expires_at"],
            "extension": chat.extension,
            "credit_seconds": None if chat.credit is None else chat.credit["added_seconds"],
        }
