"""Error messages are in the language that the client requests (docs/product.md#languages).

Codes and field names are the same in both languages.
"""

import json
from typing import Any

import aiohttp
import pytest

from tests.access.routes import ROUTES
from tests.access.wire import ask
from tests.each import for_each
from tests.raw_http import sent
from tests.stack import Stack, World, new_id

pytestmark = pytest.mark.anyio
PAY = "/api/client/payment/requests"


async def in_both(http: aiohttp.ClientSession, url: str, method: str = "GET", **more: Any) -> tuple[Any, Any]:
    """Send a request in English and in Indonesian; return the two errors, whose codes must agree."""
    errors = []
    for language in ("en", "id"):
        headers = {"Accept-Language": f"fr, {language};q=0.7", **more.get("headers", {})}
        answer = await ask(http, url, method, **{**more, "headers": headers})
        assert answer.headers["Content-Language"] == language
        errors.append((answer.status, answer.body["error"]))
    (status, english), (other, indonesian) = errors
    assert (status, english["code"]) == (other, indonesian["code"])
    for one, two in zip(messages(english), messages(indonesian), strict=True):
        assert one != two
    return english, indonesian


def messages(error: dict[str, Any]) -> list[str]:
    """Return every message of an error."""
    return [error["message"], *(field["message"] for field in error.get("details", {}).get("fields", []))]


async def test_messages_are_english_unless_another_language_is_requested(
    stack: Stack, http: aiohttp.ClientSession
) -> None:
    url = stack.addresses.public + "/api/client/auth/me"
    for header, message in (
        (None, "Sign in first."),
        ("", "Sign in first."),
        ("fr", "Sign in first."),
        ("id-ID,id;q=0.9,en;q=0.8", "Silakan masuk dahulu."),
        ("en-US,en;q=0.9,id;q=0.8", "Sign in first."),
    ):
        headers = {} if header is None else {"Accept-Language": header}
        answer = await ask(http, url, headers={"X-Locale": "id", **headers})
        assert answer.body["error"]["message"] == message, header


@for_each("route", [r for r in ROUTES if r.access.kinds], ids=str)
async def test_refusal_of_each_route_without_token_is_translated(
    stack: Stack, http: aiohttp.ClientSession, route: Any
) -> None:
    base = stack.addresses.public if route.listener == "public" else stack.addresses.internal
    names = {name: new_id() for name in route.parameters}
    await in_both(http, base + route.at(**names), route.method)


async def test_refusals_of_the_listener_are_translated(world: World, stack: Stack, http: aiohttp.ClientSession) -> None:
    base, token = stack.addresses.public, (await world.customer()).access_token
    for method, path, data, media, status in (
        ("GET", "/nothing", None, None, 404),
        ("POST", "/healthz", b"{}", "application/json", 405),
        ("POST", PAY, b"{}", "text/plain", 415),
        ("POST", PAY, b"x" * 70_000, "application/json", 413),
        ("GET", "/api/mitra/status", None, None, 403),
        ("GET", f"{PAY}/{new_id()}", None, None, 404),
        ("POST", f"/api/shared/chat/sessions/{new_id()}/end", None, None, 404),
    ):
        headers = {} if media is None else {"Content-Type": media}
        english, _ = await in_both(http, base + path, method, token=token, data=data, headers=headers)
        assert english["code"], status


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "telepathy", "duration_minutes": 0, "topics": ["x" * 65]},
        {"targeted_mitra_id": "x", "surprise": 1, "topics": "x"},
        {"mode": 5, "duration_minutes": "12", "first_session_discount": "yes"},
        {"topics": ["x"] * 13},
        {"topics": [1, None, "\0"]},
        {"is_extension": True},
        {"session_id": "01900000-0000-7000-8000-000000000008"},
        [],
        "x",
    ],
    ids=repr,
)
async def test_messages_of_all_fields_are_translated(
    world: World, stack: Stack, http: aiohttp.ClientSession, body: Any
) -> None:
    customer = await world.customer()
    english, indonesian = await in_both(
        http, stack.addresses.public + PAY, "POST", token=customer.access_token, body=body
    )
    assert english["code"] == "VALIDATION_ERROR"
    names = [[field["field"] for field in error["details"]["fields"]] for error in (english, indonesian)]
    assert names[0] == names[1] != []


@pytest.mark.parametrize("query", ["limit=x", "limit=0", "limit=999", "cursor=x", "after=-1", "after=x"])
async def test_messages_about_query_parameters_are_translated(
    world: World, stack: Stack, http: aiohttp.ClientSession, query: str
) -> None:
    customer = await world.customer()
    paid = await world.paid(customer)
    path = (
        f"/api/shared/chat/sessions/{paid['session_id']}/messages" if "after" in query else "/api/shared/auth/sessions"
    )
    answers = await in_both(http, f"{stack.addresses.public}{path}?{query}", token=customer.access_token)
    assert [error["code"] for error in answers] == ["VALIDATION_ERROR"] * 2


@pytest.mark.parametrize("listener", ["PUBLIC", "INTERNAL"])
async def test_refusal_of_malformed_request_is_translated_by_the_headers_read(stack: Stack, listener: str) -> None:
    head = b"GET /healthz HTTP/1.1\r\nAccept-Language: id\r\nHost: x\r\nX: 1\r\n"
    for rest, code in ((b"bad header\r\n\r\n", "MALFORMED"), (b"X: 1\r\n" * 101 + b"\r\n", "HEADERS_TOO_LARGE")):
        raw = await sent(stack.ports[listener], head + rest)
        assert b"content-language: id\r\n" in raw.lower()
        error = json.loads(raw.partition(b"\r\n\r\n")[2])["error"]
        assert error["code"] == code
        assert error["message"] in (
            "Permintaan ini tidak dapat dibaca.",
            "Kirim paling banyak 100 header dan header 64 KiB.",
        )


@pytest.mark.parametrize("listener", ["REALTIME", "JOBS"])
async def test_refusals_of_the_other_processes_are_translated(
    stack: Stack, http: aiohttp.ClientSession, listener: str
) -> None:
    base = f"http://127.0.0.1:{stack.ports[listener]}"
    for method, path in (("GET", "/nothing"), ("POST", "/healthz"), ("GET", "/ws/chat")):
        said = set()
        for language in ("en", "id"):
            async with http.request(method, base + path, headers={"Accept-Language": language}) as answer:
                assert answer.status in (400, 404, 405)
                assert answer.headers["Content-Language"] == language
                assert answer.headers["Vary"] == "Accept-Language"
                said.add((await answer.json())["error"]["message"])
        assert len(said) == 2
