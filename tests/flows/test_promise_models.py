"""The estimate of waits, the verdict on promises and their report equal plain models."""

import contextlib
import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.base import ids
from core.desk.reports import DAYS, MOST, PromisesOfDay
from core.pairing.promises import rules, store
from core.pairing.promises.rules import JUDGED, JudgedPromises, Waits
from core.storage.transaction import Tx
from tests.flows.conftest import Harness
from tests.flows.past_searches import STATUS, Past, insert

SECOND, MINUTE, HOUR, DAY = (dt.timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
LONGEST = 5 * MINUTE  # searching_timeout_minutes
NEVER = float("inf")


class RolledBack(Exception):
    """The example is over."""


async def rolled_back(harness: Harness, work: Any) -> None:
    with contextlib.suppress(RolledBack):
        async with harness.runtime.transaction() as tx:
            await work(tx)
            raise RolledBack


# -- the models


def nearest(waits: Sequence[float], tenths: int) -> int | None:
    """Return the smallest wait within which these tenths ended; None if fewer did."""
    found = sorted(waits)[-(-tenths * len(waits) // 10) - 1] if waits else NEVER
    return None if found == NEVER else int(found)


def seconds(one: Past) -> float:
    """Return the wait in whole seconds, rounded up."""
    return max(1, -int(-one.wait // 1)) if one.end == "accepted" else NEVER


def modelled(past: Sequence[Past], hour: int, now: dt.datetime) -> Waits:
    counted = [
        seconds(one)
        for one in past
        if one.end in STATUS
        and not one.is_targeted
        and not one.falls_back
        and LONGEST < now - one.began_at <= 28 * DAY
        and (one.began_at.hour - hour) % 24 in (23, 0, 1)
    ]
    return Waits(searches=len(counted), p50_seconds=nearest(counted, 5), p90_seconds=nearest(counted, 9))


def outcome(one: Past, now: dt.datetime) -> str:
    due_at = one.made_at + dt.timedelta(seconds=one.p90)
    match one.end:
        case "unpaid" | "unstarted":
            return "not_searched"
        case "accepted":
            return "kept" if one.ended_at <= due_at else "late"
        case "failed":
            return "not_found"
        case "cancelled":
            return "cancelled" if one.ended_at <= due_at else "late"
        case _:
            return "waiting" if due_at >= now else "late"


def verdict(past: Sequence[Past], now: dt.datetime) -> JudgedPromises:
    counted = [
        outcome(one, now)
        for one in sorted(past, key=lambda one: (one.made_at, one.id), reverse=True)
        if now - 28 * DAY <= one.made_at < now
        and one.made_at + dt.timedelta(seconds=one.p90) < now
        and outcome(one, now) in ("kept", "late", "not_found")
    ][:JUDGED]
    return JudgedPromises(judged=len(counted), missed=sum(found != "kept" for found in counted))


def day_of(day: dt.date, past: Sequence[Past], now: dt.datetime) -> PromisesOfDay:
    made = [one for one in past if one.is_shown]
    found = [outcome(one, now) for one in made]
    judged = [one for one in made if outcome(one, now) in ("kept", "late", "not_found")]
    withheld = [outcome(one, now) for one in past if not one.is_shown]
    names = ("not_searched", "waiting", "kept", "late", "not_found", "cancelled")
    return PromisesOfDay(
        day=day,
        made=len(made),
        kept_p50=sum(outcome(one, now) == "kept" and seconds(one) <= one.p50 for one in made),
        promised_p50_seconds=nearest([one.p50 for one in judged], 5),
        actual_p50_seconds=nearest([seconds(one) for one in judged], 5),
        promised_p90_seconds=nearest([one.p90 for one in judged], 5),
        actual_p90_seconds=nearest([seconds(one) for one in judged], 9),
        withheld=len(withheld),
        withheld_missed=sum(one in ("late", "not_found") for one in withheld),
        **{name: found.count(name) for name in names},
    )


# -- the estimate and the verdict


def searches(now: dt.datetime) -> st.SearchStrategy[Past]:
    """Return a strategy for searches around the bounds of the hours and of the 28 days."""
    bounds = [now - days * DAY for days in (0, 1, 27, 28, 29)]
    hours = [at.replace(minute=0, second=0, microsecond=0) + around * HOUR for at in bounds for around in range(-2, 4)]
    near = st.builds(
        lambda at, by: at + by,
        st.sampled_from([*bounds, *hours, now - LONGEST]),
        st.sampled_from((0 * SECOND, dt.timedelta(microseconds=1), -dt.timedelta(microseconds=1), 30 * MINUTE)),
    )
    return st.builds(
        Past,
        made_at=near,
        end=st.sampled_from(("accepted",) * 6 + ("failed", "cancelled", "searching", "unpaid", "unstarted")),
        wait=st.sampled_from((0.0, 0.000001, 1.0, 1.000001, 39.5, 40.0, 120.0, 120.000001, 299.0)),
        began_after=st.sampled_from((0.0, 0.0, 0.000001, 60.0)),
        is_targeted=st.sampled_from((False,) * 5 + (True,)),
        falls_back=st.sampled_from((False,) * 5 + (True,)),
        p50=st.sampled_from((1, 40)),
        p90=st.sampled_from((40, 120)),
        is_shown=st.booleans(),
        id=st.builds(ids.new_id),
    )


BEGINNING = dt.datetime(2025, 2, 1, tzinfo=dt.UTC)
SCENES = (
    st.integers(0, 2 * 86_400)
    .map(lambda after: BEGINNING + after * SECOND)
    .flatmap(lambda now: st.tuples(st.just(now), st.lists(searches(now), max_size=60)))
)


@given(scene=SCENES, hour=st.integers(-1, 1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
def test_estimate_equals_the_model(clean_harness: Harness, scene: tuple[dt.datetime, list[Past]], hour: int) -> None:
    now, past = scene
    hour = (now.hour + hour) % 24

    async def work(tx: Tx) -> None:
        await insert(tx, past)
        intervals = rules.same_hours(hour, now=now, longest=LONGEST)
        assert await store.measure(tx, intervals) == modelled(past, hour, now)

    clean_harness.run(rolled_back(clean_harness, work))


@given(scene=SCENES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
def test_verdict_and_report_equal_the_models(clean_harness: Harness, scene: tuple[dt.datetime, list[Past]]) -> None:
    now, past = scene
    # A promise is made for a request to all mitras, and its search is the first one.
    past = [attrs.evolve(one, is_targeted=False, falls_back=False, began_after=0.0) for one in past]

    async def work(tx: Tx) -> None:
        await insert(tx, past, promised=True)
        assert await store.judge(tx, now=now) == verdict(past, now)
        rows = await tx.fetch(DAYS, now, now - MOST, now + DAY)
        days = sorted({one.made_at.date() for one in past}, reverse=True)
        assert [PromisesOfDay(**dict(row)) for row in rows] == [
            day_of(day, [one for one in past if one.made_at.date() == day], now) for day in days
        ]

    clean_harness.run(rolled_back(clean_harness, work))


def test_verdict_is_about_the_newest_hundred(clean_harness: Harness) -> None:
    now = dt.datetime(2025, 2, 2, 12, tzinfo=dt.UTC)
    old = [Past(made_at=now - 2 * HOUR, end="failed", wait=300.0) for _ in range(60)]
    new = [Past(made_at=now - HOUR, end="accepted", wait=60.0) for _ in range(90)]

    async def work(tx: Tx) -> None:
        await insert(tx, old + new, promised=True)
        assert await store.judge(tx, now=now) == JudgedPromises(judged=100, missed=10)

    clean_harness.run(rolled_back(clean_harness, work))
