"""A development service that is reached from another machine refuses, on every listener (docs/security.md#exposure)."""

from collections.abc import Iterator

import aiohttp
import pytest

from tests.stack import Stack, World
from tools.driving.throwaway import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

FROM_ELSEWHERE = [
    {"X-Forwarded-For": "203.0.113.9"},
    {"X-Forwarded-For": "127.0.0.1, 2001:db8::1"},
    {"Host": "api.example.test"},
    {"Host": "192.0.2.7:8000"},
]
FROM_HERE = [
    {},
    {"X-Forwarded-For": "127.0.0.1"},
    {"Host": "localhost:8000"},
    {"Host": "app.localhost", "X-Forwarded-For": "::1"},
]
REFRESH = "/api/shared/auth/refresh"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Run a service that only serves its own machine."""
    made = Stack(ALLOW_EXPOSED_DEVELOPMENT="false")
    yield made
    made.close()


async def answer(http: aiohttp.ClientSession, method: str, url: str, headers: dict[str, str]) -> tuple[int, str]:
    """Return the status and the error code of an answer."""
    async with http.request(method, url, headers=headers, json={} if method == "POST" else None) as found:
        return found.status, (await found.json())["error"]["code"] if found.status >= 400 else ""


@pytest.mark.parametrize("listener", ["PUBLIC", "INTERNAL", "REALTIME", "JOBS"])
async def test_every_listener_refuses_other_machines(stack: Stack, listener: str) -> None:
    base = f"http://127.0.0.1:{stack.ports[listener]}"
    async with aiohttp.ClientSession() as http:
        for headers in FROM_HERE:
            assert await answer(http, "GET", f"{base}/healthz", headers) == (200, "")
        for headers in FROM_ELSEWHERE:
            assert await answer(http, "GET", f"{base}/healthz", headers) == (200, "")  # a monitor's
            for path in ("/dev/inbox.json", "/nowhere"):
                assert await answer(http, "GET", base + path, headers) == (403, "EXPOSED_DEVELOPMENT"), (headers, path)


async def test_refused_request_changes_nothing(world: World, stack: Stack) -> None:
    public = stack.addresses.public
    before = await stack.sql("SELECT count(*) FROM webhook_logs")
    async with aiohttp.ClientSession() as http:
        for headers in FROM_ELSEWHERE:
            for path in (REFRESH, "/api/shared/auth/anonymous", "/api/shared/payment/webhooks/gateway"):
                assert await answer(http, "POST", public + path, headers) == (403, "EXPOSED_DEVELOPMENT")
        assert (await answer(http, "POST", public + REFRESH, {}))[0] == 422
    assert await stack.sql("SELECT count(*) FROM webhook_logs") == before
    assert await world.customer()


@pytest.mark.parametrize("path", ["/ws/chat", "/ws/pairing"])
async def test_sockets_refuse_other_machines(stack: Stack, path: str) -> None:
    url = stack.addresses.realtime + path
    async with aiohttp.ClientSession() as http:
        for headers in FROM_HERE:
            async with http.ws_connect(url, headers=headers) as socket:
                assert not socket.closed
        for headers in FROM_ELSEWHERE:
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await http.ws_connect(url, headers=headers)
            assert caught.value.status == 403


async def test_production_refuses_requests_that_its_proxy_received_unencrypted(stack: Stack) -> None:
    ports = {name: str(free_port()) for name in ("PUBLIC_PORT", "INTERNAL_PORT", "REALTIME_PORT")}
    production = {
        "ENVIRONMENT": "production", "PASSWORD_ROUNDS": "10", "GATEWAY_ENABLED": "false", "PUSH_SENDER": "log", **ports,
    }  # fmt: skip
    for kind, port in (("api", "INTERNAL_PORT"), ("realtime", "REALTIME_PORT")):
        stack.start(kind, key=f"production {kind}", **production)
        stack.wait_ready(kind, port=int(ports[port]), key=f"production {kind}")
    outside = {"Host": "api.example.test", "X-Forwarded-For": "203.0.113.9"}
    async with aiohttp.ClientSession() as http:
        for port in ports.values():
            url = f"http://127.0.0.1:{port}"
            for scheme in ("https", "http"):
                probed = await answer(http, "GET", f"{url}/healthz", {**outside, "X-Forwarded-Proto": scheme})
                assert probed == (200, "")
            unknown = await answer(http, "GET", f"{url}/nowhere", {**outside, "X-Forwarded-Proto": "https"})
            assert unknown[0] in (401, 404)
            unencrypted = await answer(http, "GET", f"{url}/nowhere", {**outside, "X-Forwarded-Proto": "http"})
            assert unencrypted == (403, "HTTPS_REQUIRED")
        refresh = f"http://127.0.0.1:{ports['PUBLIC_PORT']}{REFRESH}"
        assert await answer(http, "POST", refresh, {"X-Forwarded-Proto": "http"}) == (403, "HTTPS_REQUIRED")
        url = f"ws://127.0.0.1:{ports['REALTIME_PORT']}/ws/chat"
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(url, headers={**outside, "X-Forwarded-Proto": "http"})
        assert caught.value.status == 403
    for kind in ("api", "realtime"):
        assert stack.stop(f"production {kind}") == 0
        del stack.processes[f"production {kind}"]


async def test_log_says_how_to_allow_it_once_in_a_while(stack: Stack) -> None:
    async with aiohttp.ClientSession() as http:
        for _ in range(3):
            await answer(http, "GET", f"http://127.0.0.1:{stack.ports['JOBS']}/nowhere", FROM_ELSEWHERE[0])
    lines = [line for line in stack.log("jobs").splitlines() if "refused a request from elsewhere" in line]
    assert len(lines) == 1
    assert "ALLOW_EXPOSED_DEVELOPMENT" in lines[0]
