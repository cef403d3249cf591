"""The figures of the business over HTTP: who reads them, and which values are refused."""

from typing import Any

import pytest

from tests.http.operators.steps import an_operator, answer
from tests.stack import World

pytestmark = pytest.mark.anyio

FIGURES = "/internal/figures"


async def test_figures_are_those_of_the_last_30_days_by_default(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    await world.session(customer, mitra)
    operator = (await an_operator(world, {"payments": "read"})).client
    by_day = await operator.get(FIGURES)
    assert len(by_day["items"]) == 30
    today = by_day["items"][-1]
    assert today["key"] == by_day["last_day"]
    assert (by_day["time_zone"], by_day["replica_lag_seconds"]) == ("Asia/Jakarta", None)
    assert today["chats"] >= 1
    assert today["paid"] >= today["earned"] > 0
    for by in ("mode", "tier", "channel", "cause"):
        items = (await operator.get(FIGURES, by=by))["items"]
        assert sum(row["earned"] for row in items) == sum(row["earned"] for row in by_day["items"])


@pytest.mark.parametrize(
    "query",
    [{"by": "year"}, {"from": "yesterday"}, {"from": "2026-13-01"}, {"to": "1970-01-01"}, {"from": "0001-01-01"}],
    ids=str,
)
async def test_figures_of_an_unreadable_or_empty_range_are_refused(world: World, query: dict[str, Any]) -> None:
    operator = await world.operator()
    assert await answer(operator.get(FIGURES, **query)) == (422, "VALIDATION_ERROR")


async def test_figures_need_the_area_payments(world: World) -> None:
    operator = (await an_operator(world, {"activity": "read"})).client
    assert await answer(operator.get(FIGURES)) == (403, "FORBIDDEN")
