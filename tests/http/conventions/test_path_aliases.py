"""Other forms of a route's path, such as a doubled slash: each is 404 before any limit is chosen (docs/protocol.md#http)."""

import asyncio
from collections.abc import Iterator

import aiohttp
import pytest
import redis
from yarl import URL

from tests.access.fillers import filled
from tests.access.routes import ROUTES, Route
from tests.access.wire import ask
from tests.stack import Stack

pytestmark = pytest.mark.anyio

REFRESH, SIGN_IN, WEBHOOK = "/api/shared/auth/refresh", "/internal/auth/login", "/api/shared/payment/webhooks/gateway"
BURST = 10
AT_ONCE = 50


@pytest.fixture(scope="module")
def low_limits() -> Iterator[Stack]:
    """Run a service on which no limit grants a second burst during a test."""
    made = Stack(
        RATE_LIMIT_PER_MINUTE="6", RATE_LIMIT_BURST=str(BURST), RATE_LIMIT_ADDRESS_PER_MINUTE="6",
        RATE_LIMIT_ADDRESS_BURST=str(BURST), OPERATOR_SIGN_IN_PER_MINUTE=str(BURST),
    )  # fmt: skip
    yield made
    made.close()


def aliases_of(path: str) -> set[str]:
    """Return other forms of a path: each folds to the path, or decodes to it, by a rule that some server applies."""
    first, _, rest = path[1:].partition("/")
    last = path.rpartition("/")[2]
    upper = path.removesuffix(last)
    forms = {
        f"/{path}",
        f"//{path}",
        f"/.{path}",
        f"/x/..{path}",
        f"{path}//",
        f"{path}/.",
        f"{path}/x/..",
        f"{path}/./",
    }
    forms |= {f"{upper}/{last}", f"{upper}./{last}", f"{upper}x/../{last}"}
    for dot in ("%2e", "%2E"):
        forms |= {f"/{dot}{path}", f"/x/{dot}{dot}{path}", f"/x/.{dot}{path}", f"{upper}{dot}/{last}", f"{path}/{dot}"}
    for slash in ("%2f", "%2F"):
        forms |= {f"/{slash}{path[1:]}", f"{upper}{slash}{last}", f"{path}{slash}", f"{path}/{slash}"}
        forms |= {f"/{first}{slash}{rest}"} if rest else set()
    return forms


def base_of(stack: Stack, listener: str) -> str:
    """Return a listener's address."""
    return stack.addresses.internal if listener == "internal" else stack.addresses.public


async def statuses(http: aiohttp.ClientSession, calls: list[tuple[str, str]]) -> set[tuple[int, str | None]]:
    """Send requests, each a URL and a method; return their statuses and codes."""
    seen: set[tuple[int, str | None]] = set()
    for start in range(0, len(calls), AT_ONCE):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(http, url, method)) for url, method in calls[start : start + AT_ONCE]]
        seen |= {(task.result().status, task.result().code or "") for task in tasks}
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("listener", ["public", "internal"])
async def test_every_alias_of_every_route_is_404_and_charged_to_no_limit(
    low_limits: Stack, http: aiohttp.ClientSession, listener: str
) -> None:
    """Far more requests than any limit of an address admits: one that is not 404 at once would get 429."""
    routes: list[Route] = [route for route in ROUTES if route.listener == listener]
    plain = {route.path: route for route in routes if route.method != "HEAD" and route.path != "/"}
    calls = [
        (base_of(low_limits, listener) + alias, route.method)
        for route in plain.values()
        for alias in sorted(aliases_of(filled(route).partition("?")[0]))
    ]
    calls += [(f"{base_of(low_limits, listener)}{root}", "GET") for root in ("//", "///", "/./", "/%2e")]
    assert len(calls) > 20 * BURST
    assert await statuses(http, calls) == {(404, "NOT_FOUND")}


@pytest.mark.parametrize("path", [SIGN_IN, REFRESH])
async def test_aliases_use_up_no_sign_ins_and_the_plain_path_keeps_its_limit(
    low_limits: Stack, http: aiohttp.ClientSession, path: str
) -> None:
    base = base_of(low_limits, "internal" if path == SIGN_IN else "public")
    with redis.Redis.from_url(low_limits.redis_url) as client:
        client.flushall()
    body = {"email": "stranger@example.test", "password": "not the password", "refresh_token": "none"}
    body = {name: body[name] for name in (("email", "password") if path == SIGN_IN else ("refresh_token",))}
    for alias in (f"/{path}", path.replace("/auth", "//auth"), f"/.{path}", path.replace("/auth", "%2Fauth")):
        for _ in range(3):
            assert (await ask(http, base + alias, "POST", body=body)).said == (404, "NOT_FOUND")
    answers = [(await ask(http, base + path, "POST", body=body)).status for _ in range(BURST + 1)]
    assert 429 not in answers[:-1]
    assert answers[-1] == 429


async def test_one_slash_at_the_end_is_the_route_and_is_charged_like_it(
    low_limits: Stack, http: aiohttp.ClientSession
) -> None:
    with redis.Redis.from_url(low_limits.redis_url) as client:
        client.flushall()
    base = low_limits.addresses.public
    assert (await ask(http, f"{base}{WEBHOOK}/", "POST", data=b"{}")).status == 401
    assert (await ask(http, f"{base}/healthz/")).status == 200
    answers = [(await ask(http, f"{base}/api/client/auth/me/")).status for _ in range(BURST + 1)]
    assert answers == [401] * BURST + [429]


async def test_internal_requests_without_a_valid_token_are_charged_to_their_address(
    low_limits: Stack, http: aiohttp.ClientSession
) -> None:
    base = low_limits.addresses.internal
    closed = [
        route for route in ROUTES if route.listener == "internal" and route.method == "GET" and route.access.kinds
    ]
    refused = 0
    for n, token in enumerate((None, "not-a-token")):
        headers = {"X-Forwarded-For": f"198.51.100.{n + 1}"}
        seen = [
            (await ask(http, base + filled(closed[m % len(closed)]), token=token, headers=headers)).status
            for m in range(BURST + 2)
        ]
        assert seen[:BURST] == [401] * BURST
        refused += seen.count(429)
        assert (await ask(http, f"{base}/internal/auth/refresh", "POST", headers=headers, body={})).status == 429
        for file in ("/internal", "/internal/static/app.js", "/healthz", "/readyz", "/metrics"):
            free = file not in ("/internal",)
            assert (await ask(http, base + file, headers=headers)).status == (200 if free else 429), file
    assert refused >= 2


@pytest.mark.parametrize("path", ["/ws/chat", "/ws/pairing", "/healthz"])
async def test_aliases_of_the_sockets_listener_are_404(
    low_limits: Stack, http: aiohttp.ClientSession, path: str
) -> None:
    base = low_limits.addresses.realtime.replace("ws://", "http://")
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    for alias in sorted(aliases_of(path) | {f"{path}/"}):
        async with http.get(URL(base + alias, encoded=True), headers=upgrade, allow_redirects=False) as answer:
            assert answer.status == 404, alias
