"""Requests in progress are bounded: a storm of refreshes holds up neither the webhook nor the other customers."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from api.admission import REFRESHES, REFRESHES_AT_ONCE, REQUESTS, Admission
from core.base import ids
from core.base.errors import Unavailable
from core.base.keys import Keys
from core.logins import refresh
from tests.access.wire import Answer, ask
from tests.stack import World

pytestmark = pytest.mark.anyio

REFRESH, JSON = "/api/shared/auth/refresh", {"Content-Type": "application/json"}
BEYOND = 40
WAITING = "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%auth_sessions%'"


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """As many connections as a storm needs."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as made:
        yield made


async def test_refreshes_that_wait_leave_the_database_to_webhooks_and_one_too_many_is_503(
    world: World, http: aiohttp.ClientSession
) -> None:
    url = world.stack.addresses.public
    payment = await world.request(await world.customer())
    key = Keys([world.stack.env["JWT_SECRETS"].partition(":")[2].encode()]).refresh[0]

    async def present() -> Answer:
        token = refresh.make(key=key, auth_session_id=ids.new_id(), generation=0, secret=ids.new_secret())
        return await ask(http, url + REFRESH, "POST", data=json.dumps({"refresh_token": token}), headers=JSON)

    async with world.stack.transaction() as holder:
        await holder.execute("LOCK TABLE auth_sessions IN ACCESS EXCLUSIVE MODE")  # no refresh can end
        storm = [asyncio.create_task(present()) for _ in range(REFRESHES + BEYOND)]
        done: set[asyncio.Task[Answer]] = set()
        while len(done) < BEYOND:
            more, _ = await asyncio.wait(set(storm) - done, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        (row,) = await world.stack.sql(WAITING)
        # The look of each of the three processes for revoked sign-ins waits, too.
        assert row["n"] <= REFRESHES_AT_ONCE + 3
        assert (await world.webhook(payment))[0] == 200
        assert (await ask(http, url + "/healthz")).status == 200
    for refused in (task.result() for task in done):
        assert refused.said == (503, "UNAVAILABLE")
        assert int(refused.headers["Retry-After"]) >= 1
    answers = await asyncio.gather(*storm)
    assert sum(answer.said == (401, "REFRESH_INVALID") for answer in answers) >= REFRESHES - REFRESHES_AT_ONCE
    async with http.get(f"{world.stack.addresses.internal}/metrics") as figures:
        assert 'sesi_limited_total{limit="refreshes_at_once"}' in await figures.text()


async def test_requests_in_progress_above_the_bound_are_refused_and_ended_ones_make_room() -> None:
    refusals: list[None] = []
    admission = Admission(overloaded=lambda: refusals.append(None))
    held = [admission.request() for _ in range(REQUESTS)]
    for one in held:
        one.__enter__()
    with pytest.raises(Unavailable) as caught, admission.request():
        pass
    assert caught.value.retry_after_seconds is not None
    assert 1 <= caught.value.retry_after_seconds <= 10
    assert refusals == [None]
    held[0].__exit__(None, None, None)
    with admission.request():
        pass
