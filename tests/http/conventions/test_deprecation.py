"""Answers of deprecated routes name their replacement and the day from which on they may be gone."""

import datetime as dt
from email.utils import parsedate_to_datetime

import aiohttp
import pytest

from api import deprecation
from tests.stack import World

pytestmark = pytest.mark.anyio
ID = "019b0000-0000-7000-8000-000000000001"
REQUESTS, ALIAS = "/api/client/payment/requests", "/api/client/payment/sessions"
NAMES = {"Deprecation", "Sunset", "Link"}


@pytest.mark.parametrize(
    ("method", "path", "replacement"),
    [
        ("POST", ALIAS, REQUESTS),
        ("GET", f"{ALIAS}/{ID}", None),
        ("POST", f"{ALIAS}/{ID}/abandon", None),
        ("GET", "/api/client/chat-pricing", "/api/client/chat/pricing"),
        ("POST", "/api/client/chat/request", ""),
    ],
)
async def test_deprecated_route_names_its_replacement_in_every_answer(
    world: World, method: str, path: str, replacement: str | None
) -> None:
    customer = await world.customer()
    if replacement is None:
        replacement = path.replace(ALIAS, REQUESTS)
    token = {"Authorization": f"Bearer {customer.access_token}"}
    async with aiohttp.ClientSession(world.stack.addresses.public) as http:
        for headers in ({}, token):
            async with http.request(method, path, headers=headers) as answer:
                assert (answer.status == 401) is (not headers)
                assert answer.headers["Deprecation"] == f"@{int(deprecation.SINCE.timestamp())}"
                assert parsedate_to_datetime(answer.headers["Sunset"]) == deprecation.SUNSET
                link = f'<{replacement}>; rel="successor-version"' if replacement else None
                assert answer.headers.get("Link") == link


@pytest.mark.parametrize("path", [REQUESTS, "/api/client/chat/pricing", "/api/client/chat/requests", "/healthz"])
async def test_current_route_carries_no_deprecation(world: World, path: str) -> None:
    async with aiohttp.ClientSession(world.stack.addresses.public) as http, http.get(path) as answer:
        assert NAMES & answer.headers.keys() == set()


def test_link_of_a_path_with_control_characters_is_one_header() -> None:
    (link,) = (value for name, value in deprecation.headers_of(f"{ALIAS}/a\r\nx: 1>") if name == b"link")
    assert link == b'</api/client/payment/requests/a%0D%0Ax%3A%201%3E>; rel="successor-version"'


def test_sunset_leaves_clients_a_year() -> None:
    assert dt.timedelta(days=365) <= deprecation.SUNSET - deprecation.SINCE
