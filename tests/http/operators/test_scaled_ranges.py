"""Ranges of time while service time is scaled: ids have real time, rows service time."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from core.base.clock import as_text
from tests.stack import Stack, World
from tools.driving.device import Device

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
LISTS = {"/internal/mitra-activity/log": "notified_at", "/internal/webhook-logs": "received_at"}
STORED = """INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, raw_body, http_status, processing_result)
  SELECT uuidv7(), $1, format('10.%s.%s.1', n / 250, n % 250), false, '{}', 401, 'unauthorized'
  FROM generate_series(1, 600) AS n"""


class OldStack(Stack):
    """A service whose database has run at its scale for half a year, so service time is far from real time."""

    @staticmethod
    def template() -> None:
        """Return nothing: the template has an anchor already."""


@pytest.fixture(scope="module", params=[10, 0.5])
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Run a service with a fast clock, and one with a slow clock."""
    made = OldStack(scale=request.param, SESI_TIME_ANCHOR=as_text(dt.datetime.now(dt.UTC) - 180 * DAY))
    yield made
    made.close()


@pytest.fixture
async def operator(world: World) -> Device:
    """Return an operator, after a paid chat."""
    await world.session(await world.customer(), await world.mitra())
    return await world.operator()


@pytest.mark.slow
async def test_range_that_covers_a_row_shows_it(world: World, operator: Device) -> None:
    for path, field in LISTS.items():
        everything = (await operator.get(path))["items"]
        assert everything, path
        for row in everything:
            at = dt.datetime.fromisoformat(row[field])
            assert row in (await rows(operator, path, at, at + HOUR)), path
            assert row in (await rows(operator, path, at - DAY, at + DAY)), path
            assert row not in (await rows(operator, path, at - DAY, at)), path
            assert row not in (await rows(operator, path, at + HOUR, at + DAY)), path
    now = await world.service_time()
    figures = await operator.get("/internal/mitra-activity/summary", **{"from": as_text(now - DAY)})
    assert [(one["notified"], one["accepted"]) for one in figures["items"]] == [(1, 1)]


async def rows(operator: Device, path: str, begin: dt.datetime, end: dt.datetime) -> list[dict[str, Any]]:
    """Return the rows of a list in a range."""
    return (await operator.get(path, **{"from": as_text(begin), "to": as_text(end)}))["items"]


@pytest.mark.slow
async def test_budget_of_calls_without_a_token_binds(world: World) -> None:
    await world.stack.sql(STORED, await world.service_time())
    assert (await world.raw_webhook({}, token=None, address="203.0.113.1"))[1]["processing_result"] == "flood"
