"""Requests of one device, and the tokens with which it sends them."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, NotRequired, Self, TypedDict, Unpack

import aiohttp

from .errors import Refused, SesiError, Unreached
from .service_clock import ServiceClock
from .sockets import Socket
from .storage import SIGNED_IN, DeviceStorage, Store
from .waits import ANSWER_S, longest_pause
from .wire import Json

Role = Literal["customer", "mitra"]
HTTP_TIMEOUT_S = 30.0
SUCCESSOR_S = 30.0  # how long the service gives a lost successor of a refresh token again
LONGEST_PAUSE_S = 8.0  # of the random ones between repeats of a refresh
LONGEST_RETRY_AFTER_S = 30.0  # a longer wait is left to the caller
ATTEMPTS = 6
TOKEN_FIELDS = ("access_token", "refresh_token")
HEADERS = {
    "X-Locale": "locale",
    "Accept-Language": "locale",
    "X-Platform": "platform",
    "X-App-Version": "app_version",
}


class Options(TypedDict):
    """What a client is made with. Those without a value have a default."""

    role: Role
    api: str  # base address of the public listener, such as `https://api.example.com`
    sockets: str  # base address of the sockets, such as `wss://sockets.example.com`
    storage: NotRequired[Store | None]  # what must survive a restart; default: nothing does
    locale: NotRequired[str | None]  # language of error messages and pushes, `id` or `en`
    platform: NotRequired[str | None]  # shown in the user's list of devices
    app_version: NotRequired[str | None]
    # Other ones in tests with virtual time.
    http: NotRequired[aiohttp.ClientSession | None]
    clock: NotRequired[ServiceClock | None]
    dice: NotRequired[random.Random | None]


class Rest:
    """The HTTP half of a device: one user's calls, with an access token that is refreshed once for all of them."""

    def __init__(self, **options: Unpack[Options]) -> None:
        self.role: Role = options["role"]
        self.storage = DeviceStorage(options.get("storage"))
        self.clock = options.get("clock") or ServiceClock()
        self.dice = options.get("dice") or random.Random()
        self.access_token: str | None = None
        self.refresh_token: str | None = None
        self.user: Json = {}
        self.signed_out: str | None = None  # why the last sign-in ended: `self`, `revoked` or `expired`
        self._base, self._sockets = options["api"].rstrip("/"), options["sockets"].rstrip("/")
        self._refresh_path = "/api/shared/auth/refresh"
        named = ((header, options.get(name)) for header, name in HEADERS.items())
        self._headers = {header: str(value) for header, value in named if value is not None}
        timeout = aiohttp.ClientTimeout(total=HTTP_TIMEOUT_S)
        self._http = options.get("http") or aiohttp.ClientSession(timeout=timeout)
        self._renewal: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the HTTP connections. The sign-in and unsent messages stay stored."""
        if self._renewal is not None:
            self._renewal.cancel()
        await self._http.close()

    # -- calls

    async def call(self, method: str, path: str, body: Any = None, *, fields: Iterable[str] = (), **more: Any) -> Any:
        """Send a request and return the JSON of its answer (None for 204). Raises Refused, Unreached.

        `more` may have `params`, `headers`, and `signed=False` to leave the access token out. A program between this
        one and the service may answer in its place: an answer without the `fields` counts as none.
        """
        before = self.access_token if more.get("signed", True) else None
        try:
            return _checked(*await self._once(method, path, body, **more), fields)
        except Refused as refused:
            if refused.code != "UNAUTHENTICATED" or before is None or self.refresh_token is None:
                raise
        await self.renew(before)
        return _checked(*await self._once(method, path, body, **more), fields)

    async def _once(self, method: str, path: str, body: Any, **more: Any) -> tuple[int, Any]:
        headers = self._headers | dict(more.pop("headers", {}))
        if more.pop("signed", True) and self.access_token is not None:
            headers.setdefault("Authorization", f"Bearer {self.access_token}")
        url = path if path.startswith("http") else self._base + path
        sent_at = self.clock.monotonic()
        try:
            async with self._http.request(method, url, json=body, headers=headers, **more) as answer:
                if (server_time := answer.headers.get("X-Server-Time")) is not None:
                    self.clock.observe(server_time, sent_at)
                return answer.status, None if answer.status == 204 else await _body_of(answer)
        except Unreached:
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise Unreached(f"{method} {path} has no answer: {error!r}") from error

    async def get(self, path: str, **params: Any) -> Any:
        """Send a GET request with `params` as its query. Raises Refused, Unreached."""
        return await self.call("GET", path, params=params)

    async def post(self, path: str, body: Any = None) -> Any:
        """Send a POST request. Raises Refused, Unreached."""
        return await self.call("POST", path, body)

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Send a request that may be sent twice; while the answer is a temporary one, send it again. Raises SesiError.

        The arguments are those of `call`.
        """
        return await self._repeat(lambda: self.call(method, path, body, **more))

    async def _repeat(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        for n in range(ATTEMPTS):
            try:
                return await attempt()
            except SesiError as error:
                wait_s = self.wait_after(error, longest_pause(n))
                if not error.is_temporary or n + 1 == ATTEMPTS or wait_s > LONGEST_RETRY_AFTER_S:
                    raise
            await asyncio.sleep(wait_s)
        raise AssertionError("the last attempt raises")

    def wait_after(self, error: SesiError, longest_s: float) -> float:
        """Return the seconds that the service has asked for, else a random wait of at most `longest_s`."""
        return self.dice.random() * longest_s if error.retry_after_s is None else float(error.retry_after_s)

    # -- tokens

    async def renew(self, before: str | None) -> None:
        """Replace the access token `before`, unless that has happened already. Raises SesiError.

        One refresh serves all callers, and goes on if they are cancelled: its answer must not be lost.
        """
        if self.access_token != before:
            return
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())
            self._renewal.add_done_callback(self._renewed)
        await asyncio.shield(self._renewal)

    def _renewed(self, renewal: asyncio.Task[None]) -> None:
        self._renewal = None
        if not renewal.cancelled():
            renewal.exception()  # taken here, because all callers may have been cancelled

    async def _renew(self) -> None:
        try:
            await self._refresh_patiently()
        except Refused as refused:
            if refused.code == "REFRESH_INVALID":
                await self._end("expired")
            raise

    async def _refresh_patiently(self) -> None:
        """Refresh, and repeat with the same token after a lost or a temporary answer."""
        loop = asyncio.get_running_loop()
        gives_up_at, pause_s = loop.time() + SUCCESSOR_S, 1.0
        while True:
            try:
                return await self.refresh()
            except SesiError as error:
                if not error.is_temporary or loop.time() > gives_up_at:
                    raise
                wait_s = self.wait_after(error, pause_s)
            await asyncio.sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def refresh(self) -> None:
        """Rotate the refresh token. Raises SesiError."""
        body = {"refresh_token": self.refresh_token}
        status, answer = await self._once("POST", self._refresh_path, body, signed=False)
        self._keep(_checked(status, answer, TOKEN_FIELDS))

    def _keep(self, answer: Json) -> None:
        """Store the tokens of an answer, then use them."""
        user = answer["mitra"] if "mitra" in answer else answer["customer"]
        signed_in = answer["access_token"], answer["refresh_token"], user
        self.storage.set(SIGNED_IN, signed_in)
        self.access_token, self.refresh_token, self.user = signed_in
        self.signed_out = None

    def _set_user(self, user: Json) -> Json:
        self.user = user
        self.storage.set(SIGNED_IN, (self.access_token, self.refresh_token, user))
        return user

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

    async def _end(self, reason: str) -> None:
        """Forget the sign-in, because the user or the service has ended it."""
        if self.access_token is not None:
            self.forget()
            self.signed_out = reason

    # -- sockets

    async def connect(self, path: str) -> Socket:
        """Open a socket on a path (`chat` or `pairing`) and authenticate it; its `auth_ok` has the snapshot.

        This is the lower layer of `start`: the socket is not opened again, and acknowledges nothing. Raises
        aiohttp.WSServerHandshakeError for a refused upgrade, else aiohttp.ClientError or OSError.
        """
        token = self.access_token
        assert token is not None, "sign in first"
        async with asyncio.timeout(ANSWER_S):
            ws = await self._http.ws_connect(f"{self._sockets}/ws/{path}", autoping=True, max_msg_size=0)
        socket = Socket(ws, path)
        try:
            sent_at = self.clock.monotonic()
            async with asyncio.timeout(ANSWER_S):
                frame = await socket.authenticate(token)
            self.clock.observe(frame["server_time"], sent_at)
            self.clock.learn_scale(float(frame["time_scale"]))
        except BaseException:
            socket.abort()
            raise
        return socket


async def _body_of(answer: aiohttp.ClientResponse) -> Any:
    """Return the JSON of an answer, None of an error that has none. Raises Unreached."""
    try:
        return await answer.json(content_type=None)
    except ValueError as error:
        if answer.status < 400:
            raise Unreached("another program answered: this is not JSON") from error
        return None


def _checked(status: int, answer: Any, fields: Iterable[str]) -> Any:
    if status >= 400:
        raise Refused(status, answer)
    missing = [name for name in fields if not isinstance(answer, dict) or answer.get(name) is None]
    if missing:
        raise Unreached(f"another program answered: there is no {', '.join(missing)}")
    return answer
