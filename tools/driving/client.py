"""A small client of the public and internal interfaces, for the demo, the benchmarks and the tests.

It behaves like an app: it sends the access token, refreshes it once after a 401, and opens sockets that authenticate,
acknowledge events and keep every frame.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any, ClassVar, Self

import aiohttp
import attrs

from core.base import ids
from tools.driving.device_storage import SIGNED_IN, DeviceStorage
from tools.driving.service_clock import ServiceClock

HTTP_TIMEOUT_S = 15
SUCCESSOR_S = 30.0  # how long the service gives a lost successor of a refresh token again
LONGEST_PAUSE_S = 8.0  # of the random ones between repeats without a Retry-After
REPEATED = frozenset({408, 429, 500, 502, 503})


class Refused(Exception):
    """The service refused a request. `status` is the HTTP status, `code` the error code, `body` the whole body."""

    def __init__(self, status: int, body: Any) -> None:
        error = body.get("error", {}) if isinstance(body, dict) else {}
        super().__init__(f"{status} {error.get('code')}: {error.get('message')}")
        self.status = status
        self.code = error.get("code")
        self.retry_after_s: float | None = error.get("retry_after_seconds")
        self.body = body


class Closed(ConnectionError):
    """The service has closed the socket. `code` is None if the connection was lost."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(message)
        self.code = code


@attrs.frozen(kw_only=True)
class Addresses:
    """The base URLs of a service."""

    public: str
    internal: str
    realtime: str


# Access token, refresh token, user.
SignedIn = tuple[str | None, str | None, dict[str, Any]]


class Client:
    """One device of one user."""

    def __init__(
        self,
        addresses: Addresses,
        *,
        http: aiohttp.ClientSession | None = None,
        storage: DeviceStorage | None = None,
        clock: ServiceClock | None = None,
        dice: random.Random | None = None,
    ) -> None:
        """`http`, `clock` and `dice` are other ones in tests with virtual time."""
        self.addresses = addresses
        self.storage = storage or DeviceStorage()
        self.clock = clock or ServiceClock()
        self.dice = dice or random.Random()
        self.access_token: str | None = None
        self.refresh_token: str | None = None
        self.user: dict[str, Any] = {}
        self._refresh_path = "/api/shared/auth/refresh"
        self._base = addresses.public
        self._http = http or aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HTTP_TIMEOUT_S))
        self._refreshing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._http.close()

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Send a request and return the JSON of its answer (None for 204). Raises Refused."""
        before = self.access_token
        status, answer = await self._once(method, path, body, **more)
        if status == 401 and before is not None and self.refresh_token is not None and path != self._refresh_path:
            await self.renew(before)
            status, answer = await self._once(method, path, body, **more)
        if status >= 400:
            raise Refused(status, answer)
        return answer

    async def _once(self, method: str, path: str, body: Any, **more: Any) -> tuple[int, Any]:
        headers = dict(more.pop("headers", {}))
        if self.access_token is not None:
            headers["Authorization"] = f"Bearer {self.access_token}"
        url = path if path.startswith("http") else self._base + path
        sent_at = asyncio.get_running_loop().time()
        async with self._http.request(method, url, json=body, headers=headers, **more) as answer:
            if (server_time := answer.headers.get("X-Server-Time")) is not None:
                self.clock.observe(server_time, sent_at)
            if answer.status == 204:
                return 204, None
            return answer.status, await _body_of(answer)

    async def get(self, path: str, **params: Any) -> Any:
        """Send a GET request with `params` as its query. Raises Refused."""
        return await self.call("GET", path, params=params)

    async def post(self, path: str, body: Any = None) -> Any:
        """Send a POST request. Raises Refused."""
        return await self.call("POST", path, body)

    async def renew(self, before: str | None) -> None:
        """Replace the access token `before`, unless a concurrent call has replaced it already. Raises Refused."""
        async with self._refreshing:
            if self.access_token == before:
                await self._refresh_patiently()

    async def _refresh_patiently(self) -> None:
        """Refresh, and repeat with the same token after a lost or a temporary answer."""
        loop = asyncio.get_running_loop()
        gives_up_at, pause_s = loop.time() + SUCCESSOR_S, 1.0
        while True:
            try:
                return await self.refresh()
            except Refused as refused:
                if refused.status not in REPEATED or loop.time() > gives_up_at:
                    raise
                wait_s = refused.retry_after_s
            except (aiohttp.ClientError, ConnectionError, TimeoutError):
                if loop.time() > gives_up_at:
                    raise
                wait_s = None
            await asyncio.sleep(self.dice.random() * pause_s if wait_s is None else wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def refresh(self) -> None:
        """Rotate the refresh token. Raises Refused."""
        status, answer = await self._once("POST", self._refresh_path, {"refresh_token": self.refresh_token})
        if status >= 400:
            raise Refused(status, answer)
        if not isinstance(answer, dict) or not answer.keys() >= {"access_token", "refresh_token"}:
            raise ConnectionError("another program answered the refresh")
        self._keep(answer)

    def _keep(self, answer: dict[str, Any]) -> None:
        self.access_token, self.refresh_token = answer["access_token"], answer["refresh_token"]
        self.user = next(answer[kind] for kind in ("customer", "mitra", "operator") if kind in answer)
        self.storage.set(SIGNED_IN, self.signed_in)

    def restore(self) -> bool:
        """Continue as the user in the storage; return whether there is one."""
        stored = self.storage.get(SIGNED_IN)
        if stored is None:
            return False
        self.access_token, self.refresh_token, self.user = stored
        return True

    def forget(self) -> None:
        """Forget the user and the tokens, and everything in the storage."""
        self.access_token, self.refresh_token, self.user = None, None, {}
        self.storage.empty()

    async def sign_out(self) -> None:
        """Forget the user, then end the auth session if the service can be reached."""
        token = self.access_token
        self.forget()
        if token is not None:
            with contextlib.suppress(aiohttp.ClientError, ConnectionError, TimeoutError):
                await self._once("POST", "/api/shared/auth/logout", None, headers={"Authorization": f"Bearer {token}"})

    async def sign_in_anonymously(self, name: str) -> None:
        """Sign in as a new anonymous customer with a name."""
        self._keep(await self.post("/api/shared/auth/anonymous"))
        self.user = await self.call("PATCH", "/api/client/auth/profile", {"display_name": name})

    async def sign_in_as_mitra(self, phone: str, code_of: Callable[[str], "asyncio.Future[str]"]) -> None:
        """Sign in as a mitra; `code_of` returns the code that was sent for an OTP request id."""
        asked = await self.post("/api/mitra/auth/otp/request", {"phone": phone})
        code = await code_of(asked["otp_request_id"])
        body = {"otp_request_id": asked["otp_request_id"], "code": code}
        self._keep(await self.post("/api/mitra/auth/otp/verify", body))

    async def sign_in_as_operator(self, email: str, password: str) -> None:
        """Sign in as an operator, on the internal listener."""
        self._base, self._refresh_path = self.addresses.internal, "/internal/auth/refresh"
        self._keep(await self.post("/internal/auth/login", {"email": email, "password": password}))

    @property
    def signed_in(self) -> SignedIn:
        """Return what another client of the same user needs to continue; this one must not be used after that."""
        return self.access_token, self.refresh_token, self.user

    async def go_on_as_operator(self, signed_in: SignedIn | None) -> bool:
        """Continue as the operator of another client. Return False if `signed_in` is None or no longer valid."""
        if signed_in is None:
            return False
        self._base, self._refresh_path = self.addresses.internal, "/internal/auth/refresh"
        self.access_token, self.refresh_token, self.user = signed_in
        try:
            await self.get("/internal/auth/me")
        except Refused:
            self.access_token = self.refresh_token = None
            return False
        return True

    async def open(self, path: str, *, ack: bool = True) -> "Socket":
        """Open a socket on a path (`chat` or `pairing`) and authenticate it; with `ack`, it acknowledges events."""
        assert self.access_token is not None
        ws = await self._http.ws_connect(f"{self.addresses.realtime}/ws/{path}", autoping=True, max_msg_size=0)
        socket = Socket(ws, path, ack=ack)
        try:
            await socket.send({"type": "auth", "token": self.access_token})
            await socket.wait("auth_ok")
        except BaseException:
            socket.abort()
            raise
        return socket


async def _body_of(answer: aiohttp.ClientResponse) -> Any:
    """Return the JSON of an answer, None of an error that has none.

    Raises ConnectionError if another program than the service has answered.
    """
    try:
        return await answer.json(content_type=None)
    except ValueError as error:
        if answer.status < 400:
            raise ConnectionError("the answer is not JSON") from error
        return None


class Socket:
    """An authenticated socket that keeps every frame in order."""

    # Called with the path, each frame, and the first frame (`auth_ok`). The tests set it.
    check_frame: ClassVar[Callable[[str, dict[str, Any], dict[str, Any]], None] | None] = None

    def __init__(self, ws: aiohttp.ClientWebSocketResponse, path: str, *, ack: bool) -> None:
        self._ws = ws
        self._path = path
        self._ack = ack
        self.frames: list[dict[str, Any]] = []
        self._claimed: set[int] = set()
        self._news = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())
        self.closed = False

    @property
    def close_code(self) -> int | None:
        """Return the service's close code, or None."""
        return self._ws.close_code

    async def _read(self) -> None:
        try:
            async for message in self._ws:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    continue
                frame = message.json()
                if Socket.check_frame is not None:
                    Socket.check_frame(self._path, frame, self.frames[0] if self.frames else frame)
                # Messages are acknowledged by `delivered` and `read` instead.
                if self._ack and "event_id" in frame and frame["type"] != "message":
                    with contextlib.suppress(ConnectionError, RuntimeError):
                        await self._ws.send_json({"type": "ack", "event_id": frame["event_id"]})
                async with self._news:
                    self.frames.append(frame)
                    self._news.notify_all()
        finally:
            async with self._news:
                self.closed = True
                self._news.notify_all()

    async def more(self, place: int) -> list[dict[str, Any]]:
        """Wait for frames after the first `place` ones and return them; the list is empty if the socket has closed."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.frames) > place or self.closed)
            return self.frames[place:]

    def abort(self) -> None:
        """Abort the connection without a close frame."""
        connection = self._ws._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()

    async def send(self, frame: dict[str, Any]) -> None:
        """Send a frame."""
        await self._ws.send_json(frame)

    async def say(self, session_id: str, content: str, *, client_message_id: str | None = None) -> dict[str, Any]:
        """Send a message and return its `message_ack` or `error` frame."""
        ref = ids.new_id()
        await self.send(
            {
                "type": "send_message",
                "ref": ref,
                "session_id": session_id,
                "client_message_id": client_message_id or ids.new_id(),
                "content": content,
            }
        )
        return await self.wait("message_ack", "error", where=lambda frame: frame.get("ref") == ref)

    async def wait(
        self, *types: str, where: Callable[[dict[str, Any]], bool] = lambda _: True, timeout: float = 20
    ) -> dict[str, Any]:
        """Return the first frame of these types for which `where` is true and that was not returned before.

        Raises TimeoutError after `timeout` real seconds, Closed if the socket has closed.
        """
        async with asyncio.timeout(timeout):
            async with self._news:
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
        await self._ws.close()
        await asyncio.wait([self._reader])
