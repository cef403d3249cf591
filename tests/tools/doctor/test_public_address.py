"""`sesi doctor --url` checks the public address: certificate, answers, clock, and the client addresses that are seen."""

import datetime as dt
import email.utils
import pathlib
from collections.abc import Mapping

import aiohttp
import pytest
from aiohttp import web

from core.security.exposure import HttpsRequired
from tests.stack import Stack
from tests.tools.doctor.certificates import Authority, Handler, serving
from tests.tools.doctor.examined import examined, ready, texts
from tools.doctor import proxies, public
from tools.doctor.examination import Options
from tools.doctor.findings import Result

pytestmark = pytest.mark.anyio


@pytest.fixture
def authority(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """Return an authority that this process trusts, as one that an administrator installed."""
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    return made


def answering(statuses: Mapping[str, int], date: dt.datetime | None = None) -> Handler:
    """Return a handler that answers each path with its status, others with 404, and with this Date."""

    async def handle(request: web.BaseRequest) -> web.Response:
        told = date or dt.datetime.now(dt.UTC)
        headers = {"Date": email.utils.format_datetime(told, usegmt=True)}
        return web.Response(status=statuses.get(request.path, 404), headers=headers)

    return handle


HEALTHY = answering({"/healthz": 200})


async def test_valid_certificate_passes_and_its_days_are_shown(authority: Authority) -> None:
    async with serving(HEALTHY, authority.context(days=80.5)) as url:
        found = await public.check(url)
    assert {one.result for one in found} == {Result.OK}
    assert "for 80 days" in texts(found, "certificate", Result.OK)


async def test_certificate_that_ends_soon_is_a_warning(authority: Authority) -> None:
    async with serving(HEALTHY, authority.context(days=20.5)) as url:
        assert "ends in 20 days" in texts(await public.check(url), "certificate", Result.WARNING)


@pytest.mark.parametrize(
    ("days", "host", "reason"), [(-1, "localhost", "expired"), (80, "other.example", "not valid for 'localhost'")]
)
async def test_expired_certificate_or_another_name_is_a_failure(
    authority: Authority, days: int, host: str, reason: str
) -> None:
    async with serving(HEALTHY, authority.context(days=days, host=host)) as url:
        assert reason in texts(await public.check(url), "certificate", Result.FAILURE)


async def test_certificate_of_an_unknown_authority_is_a_failure(tmp_path: pathlib.Path) -> None:
    async with serving(HEALTHY, Authority(tmp_path).context(days=80)) as url:
        found = await public.check(url)
    assert "with its whole chain" in texts(found, "certificate", Result.FAILURE)


async def test_public_address_without_tls_is_a_failure() -> None:
    found = await public.check("http://service.invalid")
    assert "end TLS at the proxy" in texts(found, "certificate", Result.FAILURE)
    assert "check the proxy and DNS" in texts(found, "public address", Result.FAILURE)
    assert "expected https://host" in texts(await public.check("service.invalid"), "public address", Result.FAILURE)


async def test_unhealthy_address_and_published_internal_listener_are_failures() -> None:
    async with serving(answering({"/healthz": 502, "/internal/config": 401, "/metrics": 200})) as url:
        found = await public.check(url)
    assert "/healthz answers 502" in texts(found, "public address", Result.FAILURE)
    inside = texts(found, "internal listener", Result.FAILURE)
    assert ("/internal/config answers 401" in inside, "/metrics answers 200" in inside) == (True, True)


async def test_service_that_is_told_of_plain_http_behind_tls_is_a_failure(authority: Authority) -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        if request.path == "/healthz":
            return web.Response()
        return web.json_response({"error": {"code": HttpsRequired.code}}, status=403)

    async with serving(handle, authority.context(days=80)) as url:
        found = texts(await public.check(url), "public address", Result.FAILURE)
    assert "X-Forwarded-Proto of the outermost TLS" in found


@pytest.mark.parametrize("seconds", [-60, 60])
async def test_clock_of_the_public_address_a_minute_off_is_a_failure(seconds: int) -> None:
    date = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
    async with serving(answering({"/healthz": 200}, date)) as url:
        assert "run NTP on both machines" in texts(await public.check(url), "clock", Result.FAILURE)


def proxy_to(stack: Stack, forwarded: str | None) -> Handler:
    """Return a proxy to a service's public listener that sets X-Forwarded-For; None passes on the client's header."""

    async def handle(request: web.BaseRequest) -> web.Response:
        headers = {"X-Forwarded-For": request.headers.get("X-Forwarded-For", "") if forwarded is None else forwarded}
        async with (
            aiohttp.ClientSession(headers=headers) as http,
            http.request(request.method, stack.addresses.public + request.path, data=await request.read()) as answer,
        ):
            return web.Response(status=answer.status, body=await answer.read())

    return handle


async def test_proxy_that_passes_on_false_addresses_is_a_failure(stack: Stack) -> None:
    async with serving(proxy_to(stack, None)) as url:
        found = await examined(stack, Options(url=url))
    assert "believed a false X-Forwarded-For" in texts(found, "trusted proxies", Result.FAILURE)


async def test_proxy_that_sets_the_address_passes(stack: Stack) -> None:
    async with serving(proxy_to(stack, "127.0.0.1")) as url:
        found = await examined(stack, Options(url=url))
    assert "sees this machine as 127.0.0.1" in texts(found, "trusted proxies", Result.OK)
    assert texts(found, "public address", Result.OK) == f"{url} answers"


async def test_address_of_a_proxy_in_between_is_a_warning(stack: Stack) -> None:
    async with serving(proxy_to(stack, "10.1.2.3")) as url:
        found = await examined(stack, Options(url=url))
    assert "10.1.2.3, which looks like a proxy" in texts(found, "trusted proxies", Result.WARNING)


async def test_address_that_the_service_did_not_store_is_a_warning(stack: Stack) -> None:
    async with serving(answering({"/healthz": 200})) as url:
        found = await examined(stack, Options(url=url))
    assert "stored no address" in texts(found, "trusted proxies", Result.WARNING)


def test_address_behind_nat_is_a_warning() -> None:
    found = proxies.judged(ready({}), "8.8.8.8", "8.8.4.4")
    assert (found.result, "expected behind NAT" in found.text) == (Result.WARNING, True)


def test_text_that_is_no_address_is_a_warning() -> None:
    found = proxies.judged(ready({}), "unknown", "8.8.4.4")
    assert (found.result, "looks like a proxy" in found.text) == (Result.WARNING, True)


@pytest.mark.parametrize("word", ["0.0.0.0/0", "::/0"])
def test_every_address_as_a_trusted_proxy_is_a_failure(word: str) -> None:
    found = proxies.networks(ready({"TRUSTED_PROXIES": f"127.0.0.1,{word}"}))
    assert "every client chooses its own address" in texts(found, "trusted proxies", Result.FAILURE)


@pytest.mark.parametrize(("word", "wide"), [("10.0.0.0/8", True), ("fd00::/8", True), ("10.0.7.0/24", False)])
def test_wide_network_of_trusted_proxies_is_a_warning(word: str, wide: bool) -> None:
    found = proxies.networks(ready({"TRUSTED_PROXIES": word}))
    assert ("which is wide" in texts(found, "trusted proxies", Result.WARNING)) == wide


@pytest.mark.parametrize("words", ["", "127.0.0.1"])
def test_public_listener_without_a_named_proxy_is_a_warning(words: str) -> None:
    settings = ready({"TRUSTED_PROXIES": words, "PUBLIC_HOST": "192.0.2.1", "ALLOW_EXPOSED_DEVELOPMENT": "true",
                      "JWT_SECRETS": f"k:{'0123456789abcdef' * 3}", "GATEWAY_CALLBACK_TOKEN": "a-token-of-our-own-here"})  # fmt: skip
    assert "name the proxy" in texts(proxies.networks(settings), "trusted proxies", Result.WARNING)
