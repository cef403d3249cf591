"""What all answers share: the error body, headers, media types and origins (docs/errors.md, docs/security.md)."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import attrs
import pytest

from tests.access.routes import ROUTES, named
from tests.access.wire import Answer, ask, check_error, check_headers
from tests.each import for_each
from tests.http.sign_in.people import another_api, end_api
from tests.stack import CALLBACK_TOKEN, Stack, World, new_id, within
from tools.driving.device import Device
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio

PROBES = {"/healthz", "/readyz", "/metrics"}
NOT_FOUND, NOT_ALLOWED = (404, "NOT_FOUND"), (405, "METHOD_NOT_ALLOWED")
INVALID, MEDIA = (422, "VALIDATION_ERROR"), (415, "UNSUPPORTED_MEDIA_TYPE")
TOO_LARGE, MALFORMED = (413, "BODY_TOO_LARGE"), (400, "MALFORMED")
PROFILE, PAY = "/api/client/auth/profile", "/api/client/payment/requests"
BODYLESS = "/api/client/usp-seen"
WEBHOOK = "/api/shared/payment/webhooks/gateway"
JSON = {"Content-Type": "application/json"}


@attrs.define
class Caller:
    """A customer who can send any request."""

    http: aiohttp.ClientSession
    client: Device

    async def send(
        self, method: str, path: str, data: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send a request to the public listener and return the answer. Only `headers` sets a Content-Type."""
        url = self.client.addresses.public + path
        return await ask(self.http, url, method, token=self.client.access_token, data=data, headers=headers)


@pytest.fixture
async def caller(world: World, http: aiohttp.ClientSession) -> Caller:
    """Return a customer."""
    return Caller(http, await world.customer())


def bases(stack: Stack) -> list[str]:
    """Return the base addresses of both listeners."""
    return [stack.addresses.public, stack.addresses.internal]


# -- addresses and methods


async def test_unknown_paths_are_404(stack: Stack, http: aiohttp.ClientSession) -> None:
    for base in bases(stack):
        for path in ("/nothing", "/api", "/internal/nothing", "/healthz/more", "/%2e%2e/etc", "/a%00b", "/%zz", "/%ff"):
            for method in ("GET", "POST", "DELETE"):
                assert (await ask(http, base + path, method)).said == NOT_FOUND, path


async def test_unsupported_method_is_405_and_allow_names_the_supported_methods(
    stack: Stack, http: aiohttp.ClientSession
) -> None:
    taken: dict[tuple[str, str], set[str]] = {}
    for route in ROUTES:
        taken.setdefault((route.listener, route.path), set()).add(route.method)
    for (listener, path), methods in taken.items():
        base = stack.addresses.public if listener == "public" else stack.addresses.internal
        taken_too = {"HEAD"} if path in PROBES else set()
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "TRACE", "PROPFIND"} - methods - taken_too:
            answer = await ask(http, base + re.sub(r"\{\w+\}", new_id(), path), method)
            allowed = set(answer.headers.get("Allow", "").split(", "))
            if answer.status == 404:  # another path, which takes the method, matched
                assert any(method in other for key, other in taken.items() if key[1] != path), (method, path)
                continue
            assert answer.status == 405, (method, path, answer)
            if method == "HEAD":
                assert answer.raw == b""
            else:
                assert answer.said == NOT_ALLOWED
            assert methods <= allowed, (method, path, answer)
            assert method not in allowed


async def test_probes_answer_head_like_get_on_every_listener(stack: Stack, http: aiohttp.ClientSession) -> None:
    for listener in ("PUBLIC", "INTERNAL", "REALTIME", "JOBS"):
        for path in sorted(PROBES):
            url = f"http://127.0.0.1:{stack.ports[listener]}{path}"
            async with http.get(url) as got, http.head(url) as head:
                assert (head.status, await head.read()) == (got.status, b""), url
            assert got.status == (404 if listener == "PUBLIC" and path != "/healthz" else 200), url
            assert head.headers["Content-Type"] == got.headers["Content-Type"], url


@pytest.mark.slow
async def test_idle_connections_stay_open_for_keep_alive_seconds(stack: Stack) -> None:
    port = free_port()
    base = another_api(stack, "short", KEEP_ALIVE_SECONDS="1")
    stack.start("realtime", key="short-realtime", REALTIME_PORT=str(port), KEEP_ALIVE_SECONDS="1")
    stack.wait_ready("realtime", port=port)
    try:
        for listener in (int(base.rpartition(":")[2]), port):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener)
            for _ in range(2):  # the second request comes on the connection of the first
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b" 200 " in await reader.readuntil(b"}")
            async with asyncio.timeout(within(10)):
                await reader.read()  # until the service closes
            writer.close()
    finally:
        end_api(stack, "short")
        end_api(stack, "short-realtime")


@for_each(**named(ROUTES))
async def test_options_without_token_is_204_with_allow(stack: Stack, route: Any) -> None:
    base = stack.addresses.public if route.listener == "public" else stack.addresses.internal
    async with aiohttp.ClientSession() as http:
        answer = await ask(http, base + re.sub(r"\{\w+\}", new_id(), route.path), "OPTIONS")
    assert (answer.status, answer.raw) == (204, b"")
    # OPTIONS names the methods of one handler. If several handlers share a path, the 405 names the methods of all.
    allowed = set(answer.headers["Allow"].split(", "))
    assert "OPTIONS" in allowed
    assert allowed <= {known.method for known in ROUTES if known.path == route.path} | {"OPTIONS"}
    assert not [name for name in answer.headers if name.lower().startswith("access-control-")]


# -- bodies


async def test_body_over_64_kib_is_413_and_64_kib_is_accepted(caller: Caller) -> None:
    full = b'{"display_name": "Dewi"}'.ljust(65_536)
    assert (await caller.send("PATCH", PROFILE, full, JSON)).status == 200
    assert (await caller.send("PATCH", PROFILE, full + b" ", JSON)).said == TOO_LARGE
    assert (await caller.send("GET", "/nothing", b"x" * 65_537)).said == TOO_LARGE
    assert (await caller.send("POST", PROFILE, b"x" * 65_537, {"Content-Type": "text/plain"})).said == TOO_LARGE


@pytest.mark.parametrize(
    "media",
    [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/msgpack",
        "application/jsonx",
        "application/octet-stream",
        "application/json; charset=utf-16",
        "application/json;charset=iso-8859-1",
        "image/vnd+json",
        "nonsense",
        ";;;",
    ],
)
async def test_media_type_other_than_json_is_415(caller: Caller, media: str) -> None:
    body = b'{"display_name": "Sari"}'
    expected = 200 if media == ";;;" else 415  # no Content-Type
    answer = await caller.send("PATCH", PROFILE, body, {"Content-Type": media})
    assert answer.status == expected
    if expected == 415:
        assert answer.said == MEDIA
        assert (await caller.send("POST", BODYLESS, b"{}", {"Content-Type": media})).said == MEDIA
        assert (await caller.client.get("/api/client/auth/me"))["display_name"] == "Dewi"


@pytest.mark.parametrize(
    "media",
    [
        None,
        "application/json",
        "Application/JSON; Charset=UTF-8",
        'application/json; charset="utf-8"',
        "application/json;",
        "application/vnd.sesi+json",
        "application/merge-patch+json; v=1",
    ],
)
async def test_json_media_types_and_no_media_type_are_accepted(caller: Caller, media: str | None) -> None:
    headers = None if media is None else {"Content-Type": media}
    answer = await caller.send("PATCH", PROFILE, '{"display_name": "Sári ✓"}'.encode(), headers)
    assert (answer.status, answer.body["display_name"]) == (200, "Sári ✓")
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"display_name": "x"',
        b"{'display_name': 'x'}",
        b'{"display_name": "x",}',
        b'{"display_name": "x"} {}',
        b"hello",
        b"NaN",
        b'{"display_name": NaN}',
        b"null",
        b"[]",
        b"5",
        b'"text"',
        b"",
        b"   ",
        b"\xff\xfe{\0}\0",
        b'\xef\xbb\xbf{"display_name": "x"}',
        b'{"display_name": "\xff"}',
        b'{"display_name": "\\ud800"}',
        b'{"display_name": "a\\u0000b"}',
        b'{"display_name": 5}',
        b'{"display_name": null}',
        b'{"display_name": "x", "no such field": 1}',
        b'{"display_name": "x", "Display_Name": "y"}',
        b'{"display_name": ' + b"9" * 5_000 + b"}",
        b"[" * 5_000 + b"]" * 5_000,
        b'{"display_name":' * 2_500 + b"1" + b"}" * 2_500,
        b'{"display_name":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"display_name": "x", "more": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
)
async def test_invalid_body_is_422_and_changes_nothing(caller: Caller, data: bytes) -> None:
    assert (await caller.send("PATCH", PROFILE, data, JSON)).said == INVALID
    assert (await caller.client.get("/api/client/auth/me"))["display_name"] == "Dewi"


@pytest.mark.parametrize("number", [2**31, 2**53 + 1, 2**63, 2**64, 10**400, -1, 0, 12.0, 1e400, True, "12"])
async def test_number_out_of_bounds_is_422(caller: Caller, number: Any) -> None:
    text = {1e400: "1e400"}.get(number) or json.dumps(number)
    answer = await caller.send("POST", PAY, f'{{"duration_minutes": {text}}}'.encode(), JSON)
    assert answer.said == INVALID
    for name in ("after", "limit"):
        url = f"/api/shared/chat/sessions/{new_id()}/messages?{name}={text}".replace('"', "x")
        assert (await caller.send("GET", url)).status in {404, 422}


async def test_repeated_field_takes_the_last_value(caller: Caller) -> None:
    answer = await caller.send("PATCH", PROFILE, b'{"display_name": "first", "display_name": "last"}', JSON)
    assert answer.status == 200
    assert answer.body["display_name"] == "last"
    assert (await caller.send("PATCH", PROFILE, b'{"x": 1, "x": 2}', JSON)).said == INVALID


async def test_validation_error_names_every_invalid_field(caller: Caller) -> None:
    body = {"mode": "telepathy", "duration_minutes": 0, "targeted_mitra_id": "x", "topics": ["x"], "surprise": 1}
    answer = await caller.send("POST", PAY, json.dumps(body).encode(), JSON)
    assert answer.said == INVALID
    fields = {field["field"]: field["message"] for field in answer.body["error"]["details"]["fields"]}
    assert {"targeted_mitra_id", "surprise"} <= fields.keys()
    assert "topics" not in fields
    answer = await caller.send("POST", PAY, b'{"mode": "telepathy", "duration_minutes": 0}', JSON)
    assert {field["field"] for field in answer.body["error"]["details"]["fields"]} == {"mode", "duration_minutes"}


async def test_route_without_body_accepts_only_an_absent_or_empty_body(caller: Caller) -> None:
    for data, headers in (
        (None, None),
        (b"", JSON),
        (b"{}", JSON),
        (b" {} ", None),
        (None, {"Content-Type": "text/plain"}),
    ):
        assert (await caller.send("POST", BODYLESS, data, headers)).status == 204
    for data in (b'{"x": 1}', b"[]", b"null", b"5", b"{", b"\0", b"[" * 5_000):
        assert (await caller.send("POST", BODYLESS, data, JSON)).said == INVALID
    for media in ("text/plain", "application/x-www-form-urlencoded"):
        assert (await caller.send("POST", BODYLESS, b"{}", {"Content-Type": media})).said == MEDIA
    answer = await caller.send("POST", BODYLESS, b'{"b": 1, "a": {}}', JSON)
    assert [field["field"] for field in answer.body["error"]["details"]["fields"]] == ["a", "b"]


async def test_nul_in_path_or_query_is_refused(caller: Caller) -> None:
    for path in (
        "/api/client/chat/history?cursor=a%00b",
        f"{PAY}/%00",
        f"{PAY}/{new_id()}%00",
        "/api/client/auth/me%00",
    ):
        assert (await caller.send("GET", path)).said in {NOT_FOUND, INVALID}, path


async def test_webhook_answers_invalid_payload_to_any_unreadable_body(
    stack: Stack, http: aiohttp.ClientSession
) -> None:
    for data in (b"{", b"\0", b"[" * 5_000, b"{}"):
        headers = {"X-Callback-Token": CALLBACK_TOKEN, "Content-Type": "text/plain"}
        answer = await ask(http, stack.addresses.public + WEBHOOK, "POST", data=data, headers=headers)
        assert (answer.status, answer.body["processing_result"]) == (400, "invalid_payload")


# -- headers


@pytest.mark.parametrize("given", ["abc", "A-b_c.9", "x" * 128, "01a1fd3b-4a1a-7438-aed8-4f5331621a10"])
async def test_valid_request_id_is_echoed(stack: Stack, http: aiohttp.ClientSession, given: str) -> None:
    for base in bases(stack):
        for path in ("/healthz", "/nothing"):
            assert (await ask(http, base + path, headers={"X-Request-Id": given})).headers["X-Request-Id"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "<script>", "a,b", "é", "a\tb", "a/b", "a;b", "%0d%0a"])
async def test_invalid_request_id_is_replaced(stack: Stack, http: aiohttp.ClientSession, given: str) -> None:
    seen = {
        (await ask(http, base + path, headers={"X-Request-Id": given})).headers["X-Request-Id"]
        for base in bases(stack)
        for path in ("/healthz", "/nothing")
    }
    assert len(seen) == 4
    assert given not in seen


async def test_refused_request_is_logged_with_its_request_id(stack: Stack, http: aiohttp.ClientSession) -> None:
    name = new_id()
    await ask(http, stack.addresses.public + "/api/client/auth/me", headers={"X-Request-Id": name})
    lines = [json.loads(line) for line in stack.log("api").splitlines() if name in line]
    assert [(line["event"], line["code"], line["request_id"]) for line in lines] == [
        ("request", "UNAUTHENTICATED", name)
    ]


async def test_server_time_header_increases(stack: Stack, http: aiohttp.ClientSession) -> None:
    times = [(await ask(http, base + "/healthz")).headers["X-Server-Time"] for base in bases(stack) * 3]
    assert times == sorted(times)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", time) for time in times)


async def test_answers_forbid_caching_and_framing(stack: Stack, http: aiohttp.ClientSession) -> None:
    for base in bases(stack):
        for path in ("/healthz", "/nothing"):
            answer = await ask(http, base + path)
            assert answer.headers["Cache-Control"] == "no-store"
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            for name in ("X-Request-Id", "X-Server-Time", "Content-Security-Policy", "Cache-Control"):
                assert len(answer.headers.getall(name)) == 1


# -- what is hardly HTTP


async def spoken(port: int, data: bytes, *, half_close: bool = False) -> bytes:
    """Send bytes over a connection; return what is received until it closes or one answer is complete."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        if half_close:
            writer.write_eof()
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            return head + (await reader.readexactly(int(length[1])) if length else b"")
    finally:
        writer.close()


def read_raw(raw: bytes) -> Answer:
    """Parse an answer from the bytes of the connection."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = aiohttp.typedefs.CIMultiDict(line.split(": ", 1) for line in lines)
    return Answer(status=int(first.split()[1]), headers=headers, raw=body, seconds=0)


GARBAGE = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + b"\r\n\r\n",
    "words": b"hello, is anybody there?\r\n\r\n",
    "a verb that is none": b"BREW /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a verb in small letters": b"get /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9": b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
    "a NUL in the address": b"GET /heal\0thz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header without a name": b"GET /healthz HTTP/1.1\r\n: x\r\n\r\n",
    "a NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: a\0b\r\n\r\n",
    "two lengths": b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a length that is none": b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
    "a length and chunks": b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk that is none": b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "another verb's port": b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: x\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("listener", ["PUBLIC", "INTERNAL"])
async def test_garbage_instead_of_http_is_400_with_an_error_body(stack: Stack, listener: str, data: bytes) -> None:
    answer = read_raw(await spoken(stack.ports[listener], data))
    check_headers(answer)
    check_error(answer)
    assert answer.said == MALFORMED
    assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
        (b"GET http://elsewhere/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
        (b"PROPFIND /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"TRACE /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200),
        (
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            200,
        ),
    ],
)
async def test_unusual_but_valid_http_is_answered(stack: Stack, data: bytes, status: int) -> None:
    raw = await spoken(stack.ports["PUBLIC"], data) if not data.startswith(b"HEAD") else await _head(stack, data)
    answer = read_raw(raw)
    check_headers(answer)
    assert answer.status == status
    if status >= 400 and not data.startswith(b"HEAD"):
        check_error(answer)


@pytest.mark.parametrize("listener", ["PUBLIC", "INTERNAL"])
async def test_websocket_upgrade_at_api_is_answered_as_plain_request_without_warning(
    stack: Stack, listener: str
) -> None:
    upgrade = (
        b"Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    found = read_raw(await spoken(stack.ports[listener], b"GET /healthz HTTP/1.1\r\n" + upgrade))
    missing = read_raw(await spoken(stack.ports[listener], b"GET /ws/chat HTTP/1.1\r\n" + upgrade))
    assert (found.status, missing.said) == (200, (404, "NOT_FOUND"))
    assert "upgrade request" not in stack.log("api")


async def _head(stack: Stack, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.ports["PUBLIC"])
    writer.write(data)
    async with asyncio.timeout(10):
        raw = await reader.read()
    writer.close()
    assert raw.endswith(b"\r\n\r\n")  # no body
    return raw


async def test_client_that_disconnects_mid_request_does_no_harm(stack: Stack, http: aiohttp.ClientSession) -> None:
    for data in (
        b"GET /healthz HT",
        b"POST /api/shared/auth/refresh HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{",
    ):
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", stack.ports["PUBLIC"])
            writer.write(data)
            await writer.drain()
            writer.transport.abort()
    assert (await ask(http, stack.addresses.public + "/healthz")).status == 200
    assert '"unexpected"' not in stack.log("api")
    assert "Traceback" not in stack.log("api")


# -- origins

APP, DESK, EVIL = "https://app.example.test", "https://desk.example.test", "https://evil.example.test"
FOREIGN = (
    EVIL,
    "null",
    f"{APP}.evil.test",
    f"http{APP[5:]}",
    f"{APP}:8443",
    "https://appxexample.test",
    APP.upper(),
    "*",
    "x",
)


@attrs.frozen
class Listener:
    """A listener that allows an origin."""

    base: str
    origin: str
    path: str  # path of a route that needs a token
    refused: tuple[str, ...]


@pytest.fixture(scope="module")
def listeners(stack: Stack) -> Iterator[list[Listener]]:
    """Start a further api process that allows browsers' origins."""
    public, internal = free_port(), free_port()
    stack.start(
        "api", key="cors", PUBLIC_PORT=str(public), INTERNAL_PORT=str(internal), PUBLIC_CORS_ORIGINS=f"{APP},https://two.test",
        INTERNAL_CORS_ORIGINS=DESK, RATE_LIMIT_ADDRESS_PER_MINUTE="1", RATE_LIMIT_ADDRESS_BURST="5",
    )  # fmt: skip
    stack.wait_ready("api", port=internal)
    yield [
        Listener(f"http://127.0.0.1:{public}", APP, "/api/client/auth/me", (*FOREIGN, DESK)),
        Listener(f"http://127.0.0.1:{internal}", DESK, "/internal/auth/me", (*FOREIGN, APP)),
    ]
    stack.stop("cors")
    del stack.processes["cors"]


def from_somewhere(origin: str, **more: str) -> dict[str, str]:
    """Return the headers of a browser's request from a new client address."""
    return {"Origin": origin, "X-Forwarded-For": f"2001:db8:{new_id()[-4:]}:{new_id()[-4:]}::1", **more}


async def test_preflight_of_allowed_origin_allows_every_method_and_header(
    listeners: list[Listener], http: aiohttp.ClientSession
) -> None:
    wanted = "authorization,content-type,idempotency-key,x-request-id,x-platform,x-locale"
    for listener in listeners:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            for path in (listener.path, "/nothing"):
                headers = from_somewhere(listener.origin) | {
                    "Access-Control-Request-Method": method, "Access-Control-Request-Headers": wanted,
                }  # fmt: skip
                answer = await ask(http, listener.base + path, "OPTIONS", headers=headers)
                assert (answer.status, answer.raw) == (204, b"")
                assert answer.headers["Access-Control-Allow-Origin"] == listener.origin
                assert method in answer.headers["Access-Control-Allow-Methods"].split(", ")
                # By name, because "*" does not cover Authorization.
                named = {name.lower() for name in answer.headers["Access-Control-Allow-Headers"].split(", ")}
                assert set(wanted.split(",")) <= named
                assert "Origin" in answer.headers["Vary"]
                assert "Access-Control-Allow-Credentials" not in answer.headers


async def test_preflight_of_foreign_origin_or_unknown_method_is_403(
    listeners: list[Listener], http: aiohttp.ClientSession
) -> None:
    for listener in listeners:
        for origin in listener.refused:
            headers = from_somewhere(origin) | {"Access-Control-Request-Method": "GET"}
            answer = await ask(http, listener.base + listener.path, "OPTIONS", headers=headers)
            assert answer.said == (403, "FORBIDDEN"), origin
            assert "Access-Control-Allow-Origin" not in answer.headers
        for method in ("BREW", "TRACE", "get"):
            headers = from_somewhere(listener.origin) | {"Access-Control-Request-Method": method}
            answer = await ask(http, listener.base + listener.path, "OPTIONS", headers=headers)
            assert answer.said == (403, "FORBIDDEN"), method


async def some_answers(
    http: aiohttp.ClientSession, listener: Listener, origin: str
) -> AsyncIterator[tuple[int, Answer]]:
    """Yield pairs of expected status and answer for many kinds of browser requests."""
    base, headers = listener.base, from_somewhere(origin)
    yield 200, await ask(http, base + "/healthz", headers=headers)
    yield 401, await ask(http, base + listener.path, headers=headers)
    yield 404, await ask(http, base + "/nothing", headers=headers)
    yield 405, await ask(http, base + listener.path, "DELETE", headers=headers)
    yield 413, await ask(http, base + "/nothing", "POST", data=b"x" * 65_537, headers=headers)
    yield 404, await ask(http, base + "/a%00b", headers=headers)
    if listener.origin == APP:
        yield 429, await ask(http, base + "/nothing", headers=headers)


async def test_allowed_origin_can_read_every_answer(listeners: list[Listener], http: aiohttp.ClientSession) -> None:
    for listener in listeners:
        async for status, answer in some_answers(http, listener, listener.origin):
            assert answer.status == status
            assert answer.headers.getall("Access-Control-Allow-Origin") == [listener.origin], answer
            exposed = set(answer.headers["Access-Control-Expose-Headers"].split(", "))
            assert {"X-Server-Time", "X-Request-Id", "Retry-After"} <= exposed, answer
            assert "Origin" in answer.headers["Vary"], answer


async def test_foreign_origin_can_read_no_answer(listeners: list[Listener], http: aiohttp.ClientSession) -> None:
    for listener in listeners:
        for origin in listener.refused:
            async for status, answer in some_answers(http, listener, origin):
                assert answer.status == status
                assert "Access-Control-Allow-Origin" not in answer.headers, answer
                assert "Access-Control-Allow-Credentials" not in answer.headers, answer


async def test_cors_headers_are_absent_without_allowed_origins(stack: Stack, http: aiohttp.ClientSession) -> None:
    for base, path in zip(bases(stack), ("/api/client/auth/me", "/internal/auth/me"), strict=True):
        for method in ("GET", "OPTIONS", "DELETE"):
            headers = from_somewhere(APP) | {"Access-Control-Request-Method": "GET"}
            answer = await ask(http, base + path, method, headers=headers)
            assert not [name for name in answer.headers if name.lower().startswith("access-control-")], answer
