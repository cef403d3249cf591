"""The users' devices in tests and the demo: the Python client (`sesi_client`), with operators and recorded sockets."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from typing import Any

import aiohttp
import attrs

from tools.driving.sesi_client import Client, Closed, Refused, ServiceClock, Socket
from tools.driving.sesi_client.rest import Role
from tools.driving.sesi_client.storage import Store

HTTP_TIMEOUT_S = 15.0
Frame = dict[str, Any]
# Access token, refresh token, user.
SignedIn = tuple[str | None, str | None, dict[str, Any]]


@attrs.frozen(kw_only=True)
class Addresses:
    """The base URLs of a service."""

    public: str
    internal: str
    realtime: str


class Device(Client):
    """One device of one user, who may be an operator. It sends heartbeats only if it is asked to."""

    def __init__(
        self,
        addresses: Addresses,
        *,
        role: Role = "customer",
        heartbeats: bool = False,
        http: aiohttp.ClientSession | None = None,
        storage: Store | None = None,
        clock: ServiceClock | None = None,
    ) -> None:
        self._addresses = addresses
        super().__init__(
            role=role,
            api=addresses.public,
            sockets=addresses.realtime,
            heartbeats=heartbeats,
            http=http or aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HTTP_TIMEOUT_S)),
            storage=storage,
            clock=clock,
        )

    @property
    def addresses(self) -> Addresses:
        """Return the addresses of the service."""
        return self._addresses

    @addresses.setter
    def addresses(self, addresses: Addresses) -> None:
        """Use other addresses for the next sockets."""
        self._addresses, self._sockets = addresses, addresses.realtime

    async def sign_in_as_mitra(self, phone: str, code_of: Callable[[str], "asyncio.Future[str]"]) -> None:
        """Sign in as a mitra; `code_of` returns the code that was sent for an OTP request id."""
        self.role = "mitra"
        asked = await self.request_code(phone)
        code = await code_of(asked["otp_request_id"])
        await self.verify_code(asked["otp_request_id"], code)

    async def sign_in_as_operator(self, email: str, password: str) -> None:
        """Sign in as an operator, on the internal listener."""
        self._use_internal_listener()
        self._keep(await self.post("/internal/auth/login", {"email": email, "password": password}))

    def _use_internal_listener(self) -> None:
        self._base, self._refresh_path = self.addresses.internal, "/internal/auth/refresh"

    def _keep(self, answer: dict[str, Any]) -> None:
        self.role = "mitra" if "mitra" in answer else "customer"
        super()._keep({"customer": answer.get("operator"), **answer})

    @property
    def signed_in(self) -> SignedIn:
        """Return what another device of the same user needs to continue; this one must not be used after that."""
        return self.access_token, self.refresh_token, self.user

    async def go_on_as_operator(self, signed_in: SignedIn | None) -> bool:
        """Continue as the operator of another device. Return False if `signed_in` is None or no longer valid."""
        if signed_in is None:
            return False
        self._use_internal_listener()
        self.access_token, self.refresh_token, self.user = signed_in
        try:
            await self.get("/internal/auth/me")
        except Refused:
            self.access_token = self.refresh_token = None
            return False
        return True

    async def open(self, path: str, *, ack: bool = True) -> "RecordedSocket":
        """Open a socket on a path (`chat` or `pairing`) and authenticate it; with `ack`, it acknowledges events."""
        return RecordedSocket(await self.connect(path), ack=ack)


class RecordedSocket:
    """An authenticated socket that keeps every frame in order."""

    def __init__(self, socket: Socket, *, ack: bool) -> None:
        assert socket.auth_ok is not None
        self._socket = socket
        self._ws = socket._ws
        self._ack = ack
        self.frames: list[Frame] = [socket.auth_ok]
        self._claimed: set[int] = {0}
        self._news = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())
        self.closed = False

    @property
    def close_code(self) -> int | None:
        """Return the service's close code, or None."""
        return self._socket.close_code

    async def _read(self) -> None:
        try:
            async for frame in self._socket:
                # Messages are acknowledged by `delivered` and `read` instead.
                if self._ack and "event_id" in frame and frame["type"] != "message":
                    with contextlib.suppress(ConnectionError, RuntimeError):
                        await self.send({"type": "ack", "event_id": frame["event_id"]})
                async with self._news:
                    self.frames.append(frame)
                    self._news.notify_all()
        finally:
            async with self._news:
                self.closed = True
                self._news.notify_all()

    def abort(self) -> None:
        """Abort the connection without a close frame."""
        self._socket.abort()

    async def send(self, frame: Frame) -> None:
        """Send a frame."""
        await self._socket.send(frame)

    async def say(self, session_id: str, content: str, *, client_message_id: str | None = None) -> Frame:
        """Send a message and return its `message_ack` or `error` frame."""
        ref = str(uuid.uuid4())
        await self.send(
            {
                "type": "send_message",
                "ref": ref,
                "session_id": session_id,
                "client_message_id": client_message_id or str(uuid.uuid4()),
                "content": content,
            }
        )
        return await self.wait("message_ack", "error", where=lambda frame: frame.get("ref") == ref)

    async def wait(self, *types: str, where: Callable[[Frame], bool] = lambda _: True, timeout: float = 20) -> Frame:
        """Return the first frame of these types for which `where` is true and that was not returned before.

        Raises TimeoutError after `timeout` real seconds, Closed if the socket has closed.
        """
        async with asyncio.timeout(timeout), self._news:
            while True:
                for n, frame in enumerate(self.frames):
                    if n not in self._claimed and frame["type"] in types and where(frame):
                        self._claimed.add(n)
                        return frame
                if self.closed:
                    raise Closed(self.close_code, f"closed with {self.close_code} while waiting for {types}")
                await self._news.wait()

    async def wait_closed(self, timeout: float = 20) -> int | None:
        """Wait until the service has closed the socket; return the close code. Raises TimeoutError."""
        async with asyncio.timeout(timeout), self._news:
            await self._news.wait_for(lambda: self.closed)
        return self.close_code

    async def close(self) -> None:
        """Close the socket."""
        await self._socket.close()
        await asyncio.wait([self._reader])
