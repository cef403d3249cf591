"""Every route of both listeners against invalid input.

The answer is always an error body, never a 5xx, and nothing is half done.
"""

import asyncio
import re
from typing import Any

import aiohttp
import msgspec
import pytest
from yarl import URL

from api import apps
from api.public import dev_pay
from tests.stack import CALLBACK_TOKEN, World, new_id

pytestmark = pytest.mark.anyio

WEBHOOK = "/api/shared/payment/webhooks/gateway"
# These end the caller's auth session, so they are called with the token of a user that no other test needs.
LOGOUTS = {"/api/shared/auth/logout", "/internal/auth/logout"}


def routes(handlers: list[Any]) -> list[tuple[str, str]]:
    """Return method and path template of each handler."""
    found = set()
    for handler in handlers:
        for path in handler.paths:
            for method in getattr(handler, "http_methods", ()):
                template = re.sub(r"\{(\w+):\w+\}", "{}", path)
                found.add((str(getattr(method, "value", method)).upper(), template))
    return sorted(found - {("OPTIONS", path) for _, path in found})


PUBLIC = routes([*apps.PUBLIC, *dev_pay.ROUTES])
INTERNAL = routes(apps.INTERNAL)
ALL = [("public", *route) for route in PUBLIC] + [("internal", *route) for route in INTERNAL]
WRITING = [route for route in ALL if route[1] in ("POST", "PUT", "PATCH")]

JSON = {"Content-Type": "application/json"}
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "half": b'{"a": ',
    "words": b"hello",
    "null": b"null",
    "array": b"[1, 2]",
    "array of objects": b"[{}]",
    "string": b'"text"',
    "number": b"5",
    "true": b"true",
    "bytes": b"\xff\xfe\0\x01",
    "deep arrays": b"[" * 5_000 + b"]" * 5_000,
    "deep objects": b'{"value":' * 5_000 + b"1" + b"}" * 5_000,
    "unknown fields": b'{"\\u0000": 1, "no such field": {}, "a.b[0]": null, "\xc3\xa9": []}',
    "lone surrogate": b'{"\\ud800": "\\udfff", "value": "\\ud800"}',
}
# Values that no field should accept, as JSON.
VALUES: dict[str, bytes] = {
    "null": b"null",
    "array": b"[]",
    "object": b"{}",
    "object with NUL": b'{"a": ["\\u0000"]}',
    "object with 400 digits": b'{"a": ' + b"9" * 400 + b"}",
    "list with NUL": b'["\\u0000"]',
    "list with 400 digits": b"[" + b"9" * 400 + b"]",
    "NUL": b'"a\\u0000b"',
    "surrogate": b'"\\ud800"',
    "400 digits": b"9" * 400,
    "minus 400 digits": b"-" + b"9" * 400,
    "1e400": b"1e400",
    "half": b"0.5",
    "true": b"true",
    "long": b'"' + b"x" * 5_000 + b'"',
    "empty": b'""',
    "deep": b"[" * 2_000 + b"]" * 2_000,
    "injection": b'"\'; DROP TABLE customers; --"',
}
DEEP_OBJECT = b'{"a":' * 900 + b"1" + b"}" * 900
FIELDS = (
    "refresh_token", "phone", "otp_request_id", "code", "display_name", "mode", "duration_minutes", "first_session_discount",
    "targeted_mitra_id", "topics", "payment_request_id", "client_message_id", "content", "metadata", "type", "up_to",
    "message", "email", "password", "operator_action", "is_active", "value", "require_ping", "stale_after_seconds",
    "mitra_id", "accept", "topic_sensitivity",
)  # fmt: skip
IDS = (
    "nonsense",
    "0",
    "{}",
    "{id}",
    "%00",
    "%7B%7D",
    "%C3%A9",
    "%FF%FE",
    "..%2F..",
    "'%20OR%201=1%20--",
    "a" * 4_000,
    "-",
    "%",
)
QUERIES = (
    "limit=0", "limit=-1", "limit=x", "limit=" + "9" * 400, "limit=1.5", "limit=", "cursor=x", "cursor=" + "A" * 4_000, "cursor=%00",
    "cursor=MjAyNi0wMS0wMXx4", "cursor=%FF", "q=%00", "q=%FF%FE", "q=%25_%5C", "q=" + "x" * 4_000, "from=yesterday", "from=0001-01-01",
    "from=9999-12-31T23:59:59-23:59", "from=0001-01-01T00:00:00Z", "from=9999-12-31T23:59:59Z", "from=9999-12-31",
    "to=2026-01-01T00:00:00", "to=0001-01-01T00:00:00Z", "to=9999-12-31T23:59:59Z", "to=0001-01-01", "to=9999-12-31",
    "to=%F0%9F%92%B8", "is_active=maybe", "is_online=2", "superseded=x",
    "cause_tag=%F0", "operator_action=%27", "processing_result=%00", "after=-1", "after=x", "after=" + "9" * 400, "before=" + "9" * 30,
    "after=1&before=1", "a[]=1&a[]=2", "=&&==", "%", "limit=1&limit=2", "limit=%F0%9F%98%80",
)  # fmt: skip
HEADERS: tuple[dict[str, str], ...] = (
    {"Content-Type": "multipart/form-data"},
    {"Content-Type": "multipart/form-data; boundary=x"},
    {"Content-Type": "application/x-www-form-urlencoded"},
    {"Content-Type": "application/msgpack"},
    {"Content-Type": "application/json; charset=utf-16"},
    {"Content-Type": "application/json; charset=nonsense"},
    {"Content-Type": ";;;"},
    {"Accept": "text/html;q=x, image/png"},
    {"Accept-Encoding": "zstd;q=nan"},
    {"X-Request-Id": "x" * 4_000},
    {"X-Request-Id": "\u00e9 <script>"},
    {"Authorization": "Bearer"},
    {"Authorization": "Basic eDp4"},
    {"Authorization": "Bearer \u00e9\u00e9"},
    {"Cookie": "=;=;\u00e9"},
    {"User-Agent": "\u00e9" * 400},
    {"X-Forwarded-For": "not an address, \u00e9"},
    {"X-Forwarded-For": "1.2.3.4:99999, ::1%eth0"},
    {"Origin": "null", "Access-Control-Request-Method": "BREW"},
    {"Expect": "nothing", "Range": "bytes=-1"},
)


class Callers:
    """A caller for each kind of route, and one way to send anything."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tokens: dict[str, str] = {}
        self.ids: list[str] = []
        self.wrong: list[str] = []

    async def arrive(self) -> "Callers":
        """Sign all callers in, and start a chat whose ids some paths need."""
        customer, mitra = await self.world.customer(), await self.world.mitra()
        operator = await self.world.operator()
        self.tokens = {
            "client": customer.access_token or "",
            "mitra": mitra.access_token or "",
            "internal": operator.access_token or "",
            "leaver": (await self.world.customer()).access_token or "",
        }
        self.session_id = await self.world.session(customer, mitra)
        return self

    def token(self, listener: str, path: str) -> str:
        """Return the access token of a caller who may call the route."""
        if path in LOGOUTS:
            return self.tokens["leaver"]  # a logout then ends no session that other calls need
        if listener == "internal":
            return self.tokens["internal"]
        return self.tokens[
            "mitra" if path.startswith("/api/mitra") or "answer" in path or "topic" in path else "client"
        ]

    async def send(
        self, listener: str, method: str, path: str, *, data: Any = None, headers: dict[str, str] | None = None
    ) -> int:
        """Send the request, check what every answer must have, and return the status."""
        base = self.world.stack.addresses.internal if listener == "internal" else self.world.stack.addresses.public
        all_headers = {"Authorization": f"Bearer {self.token(listener, path.partition('?')[0])}", **(headers or {})}
        what = f"{method} {listener} {path[:200]} {str(data)[:100]} {str(headers)[:100]}"
        url = URL(base + path, encoded=True)
        async with self._http.request(method, url, data=data, headers=all_headers) as answer:
            raw = await answer.read()
            self._check(what, answer, raw)
            return answer.status

    def _check(self, what: str, answer: aiohttp.ClientResponse, raw: bytes) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", answer.headers.get("X-Request-Id", "")):
            self.wrong.append(f"{what}: no X-Request-Id")
        if not answer.headers.get("X-Server-Time", "").endswith("Z"):
            self.wrong.append(f"{what}: no X-Server-Time")
        if answer.status >= 500:
            self.wrong.append(f"{what}: {answer.status} {raw[:200]!r}")
        elif answer.status >= 400 and WEBHOOK not in what:
            try:
                error = msgspec.json.decode(raw)["error"]
                good = isinstance(error["code"], str) and error["message"] != ""
            except (msgspec.DecodeError, KeyError, TypeError):
                good = False
            if not good:
                self.wrong.append(f"{what}: {answer.status} {raw[:200]!r}")

    async def all_of(self, calls: list[Any]) -> list[int]:
        """Send many requests, eight at a time; return their statuses."""
        statuses: list[int] = []
        waiting = iter(calls)

        async def worker() -> None:
            for args, more in waiting:
                statuses.append(await self.send(*args, **more))

        timeout = aiohttp.ClientTimeout(total=15)
        async with aiohttp.ClientSession(timeout=timeout) as self._http, asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(worker())
        assert not self.wrong, "\n".join(self.wrong[:20])
        assert len(statuses) == len(calls)
        return statuses


@pytest.fixture
async def callers(world: World) -> Callers:
    """Return the callers, signed in."""
    return await Callers(world).arrive()


def test_route_tables_are_complete() -> None:
    assert ("POST", WEBHOOK) in PUBLIC
    assert ("PATCH", "/internal/failed-pairings/{}") in INTERNAL
    assert len(PUBLIC) > 35
    assert len(INTERNAL) > 18


def filled(callers: Callers, path: str) -> str:
    """Return the path with well-formed ids: first the chat's, then new ones."""
    return path.replace("{}", callers.session_id, 1).replace("{}", new_id())


@pytest.mark.slow
async def test_odd_bodies_never_answer_5xx(callers: Callers) -> None:
    calls = [
        ((listener, method, filled(callers, path)), {"data": body, "headers": JSON})
        for listener, method, path in WRITING
        for body in BODIES.values()
    ]
    statuses = await callers.all_of(calls)
    assert 422 in statuses


async def test_odd_values_of_all_fields_never_answer_5xx(callers: Callers) -> None:
    def bodies() -> list[bytes]:
        made = []
        for value in VALUES.values():
            made.append(b"{" + b", ".join(b'"%s": %s' % (name.encode(), value) for name in FIELDS) + b"}")
        return made

    calls = [
        ((listener, method, filled(callers, path)), {"data": body, "headers": JSON})
        for listener, method, path in WRITING
        for body in bodies()
    ]
    await callers.all_of(calls)


# A valid body of each route that takes one. Tests make one field at a time invalid, and the others are still read.
GOOD: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/api/shared/auth/refresh"): {"refresh_token": "x"},
    ("POST", "/api/mitra/auth/otp/request"): {"phone": "+62"},
    ("POST", "/api/mitra/auth/otp/verify"): {"otp_request_id": new_id(), "code": "123456"},
    ("PATCH", "/api/client/auth/profile"): {"display_name": "Dewi"},
    ("POST", "/api/client/payment/requests"): {
        "mode": "chat", "duration_minutes": 13, "first_session_discount": False, "targeted_mitra_id": new_id(), "topics": ["x"],
    },
    ("POST", "/api/client/chat/cancel"): {"payment_request_id": new_id()},
    ("POST", "/api/shared/chat/sessions/{}/messages"): {
        "client_message_id": new_id(), "type": "text", "content": "halo", "metadata": {"a": 1},
    },
    ("POST", "/api/shared/chat/sessions/{}/read"): {"up_to": 1},
    ("POST", "/api/shared/chat/sessions/{}/closure"): {"message": "terima kasih"},
    ("POST", "/internal/auth/login"): {"email": "nobody@example.test", "password": "x" * 12},
    ("POST", "/internal/auth/refresh"): {"refresh_token": "x"},
    ("PUT", "/internal/config/{}"): {"value": 1},
    ("POST", "/internal/mitras"): {"phone": "+62", "display_name": "x", "is_active": True},
    ("PATCH", "/internal/mitras/{}"): {"phone": "+62", "display_name": "x", "is_active": True},
    ("PATCH", "/internal/failed-pairings/{}"): {"operator_action": "refunded"},
}  # fmt: skip


async def test_one_invalid_field_among_valid_ones_is_refused(callers: Callers) -> None:
    calls = []
    for (method, path), good in GOOD.items():
        listener = "internal" if path.startswith("/internal") else "public"
        assert (listener, method, path) in ALL
        for name in good:
            rest = {other: msgspec.json.encode(value) for other, value in good.items() if other != name}
            for value in [*VALUES.values(), DEEP_OBJECT]:
                fields = {**rest, name: value}
                body = b"{" + b", ".join(b'"%s": %s' % (key.encode(), text) for key, text in fields.items()) + b"}"
                calls.append(((listener, method, filled(callers, path)), {"data": body, "headers": JSON}))
    documents = [b'["\\u0000"]', b"[" + b"9" * 400 + b"]", b"[" + DEEP_OBJECT + b"]", b"[1e400]", b"{}"]
    for body in (b'{"value": %s}' % value for value in documents):
        for key in ("price_tiers", "support_handles", "anonymity"):
            calls.append((("internal", "PUT", f"/internal/config/{key}"), {"data": body, "headers": JSON}))
    await callers.all_of(calls)


async def test_body_over_64_kib_is_413_whole_or_chunked(callers: Callers) -> None:
    async def chunks() -> Any:
        for _ in range(20):
            yield b" " * 4_096

    for data in (lambda: b" " * 65_537, chunks):
        calls = [
            ((listener, method, filled(callers, path)), {"data": data(), "headers": JSON})
            for listener, method, path in WRITING
            if path != WEBHOOK
        ]
        assert set(await callers.all_of(calls)) == {413}


async def test_odd_ids_in_paths_never_answer_5xx(callers: Callers) -> None:
    calls = [
        ((listener, method, path.replace("{}", odd)), {"data": b"{}", "headers": JSON})
        for listener, method, path in ALL
        if "{}" in path
        for odd in IDS
    ]
    statuses = await callers.all_of(calls)
    assert set(statuses) <= {400, 404, 405, 422}


@pytest.mark.slow
async def test_odd_queries_never_answer_5xx(callers: Callers) -> None:
    calls = [
        ((listener, method, f"{filled(callers, path)}?{query}"), {})
        for listener, method, path in ALL
        if method == "GET"
        for query in QUERIES
    ]
    await callers.all_of(calls)


@pytest.mark.slow
async def test_odd_headers_never_answer_5xx(callers: Callers) -> None:
    calls = [
        ((listener, method, filled(callers, path)), {"data": b"{}" if method != "GET" else None, "headers": odd})
        for listener, method, path in ALL
        if path not in ("/readyz", "/metrics")
        for odd in HEADERS
    ]
    await callers.all_of(calls)


async def test_unknown_paths_are_404_with_an_error_body(callers: Callers) -> None:
    paths = ("/x", "/api", "/api/", "/api/client/payment/requests/x/y", "/%00", "/%2e%2e/x", "/" + "x" * 8_000)
    calls = [((listener, "GET", path), {}) for listener in ("public", "internal") for path in paths]
    calls += [(("public", "GET", path), {}) for path in ("/", "//", "/internal", "/internal/static/app.js")]
    calls += [(("public", "GET", path), {}) for _, _, path in ALL if path.startswith("/internal")]
    calls += [(("internal", "GET", path), {}) for _, _, path in ALL if path.startswith(("/api", "/dev"))]
    calls += [(("public", "GET", path), {}) for path in ("/readyz", "/metrics")]
    assert set(await callers.all_of(calls)) <= {404, 405}


async def test_private_route_without_token_is_401(world: World) -> None:
    open_to_all = {
        "/healthz", "/readyz", "/metrics", WEBHOOK, "/dev/pay/{}", "/api/shared/auth/anonymous", "/api/shared/auth/refresh",
        "/api/mitra/auth/otp/request", "/api/mitra/auth/otp/verify", "/api/shared/config/otp", "/internal/auth/login",
        "/internal/auth/totp/verify",
        "/internal/auth/refresh", "/.well-known/sesi-receipts.json",
            "/api/shared/auth-providers", "/api/shared/config/app", "/api/client/auth/otp/request",
            "/api/client/auth/otp/verify", "/api/client/auth/identity-a", "/api/client/auth/identity-b",
        }  # fmt: skip
    callers = Callers(world)
    callers.tokens = dict.fromkeys(("client", "mitra", "internal", "leaver"), "none")
    callers.session_id = new_id()
    private = [route for route in ALL if route[2] not in open_to_all]
    calls = [((listener, method, filled(callers, path)), {"headers": JSON}) for listener, method, path in private]
    assert len(calls) > 40
    assert set(await callers.all_of(calls)) == {401}


async def test_log_contains_no_unexpected_error_after_all_bad_input(world: World) -> None:
    async with world.client()._http.post(
        world.stack.addresses.public + WEBHOOK, data=b"{", headers={"X-Callback-Token": CALLBACK_TOKEN}
    ) as answer:
        assert answer.status == 400
    assert '"unexpected"' not in world.stack.log("api")
    assert "Traceback" not in world.stack.log("api")
