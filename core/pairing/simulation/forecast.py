"""Forecast what a change of settings does: what happened, plus the difference of two replays (docs/simulation.md)."""

import datetime as dt
import random
import zoneinfo
from collections.abc import Sequence
from typing import Any

import attrs

from core.base.progress import Report, part, unreported
from core.pairing.simulation import figures
from core.pairing.simulation.figures import UPTO_S, SearchFigures, Values, total
from core.pairing.simulation.history import DAY, History, SettingsSince, Shift
from core.pairing.simulation.people import Fitted
from core.pairing.simulation.replay import Replay
from core.pairing.simulation.rules import (
    DAYS_JUDGED,
    FIGURES,
    LEAST_ANSWERS,
    LEAST_DAYS,
    LEAST_SEARCHES,
    MOST_GUESSED,
    BackTest,
    Bar,
    Change,
    Forecast,
    HourOfWeek,
    NotEnoughHistory,
    Row,
    tried,
)

MOST_REPLAYS = 8  # of each kind, with other draws
REQUESTS = 400_000  # of the replays of a kind together, about
DRAWN = 200  # draws of days
INTERVAL = 0.9


@attrs.frozen(kw_only=True)
class Basis:
    """What all forecasts from a history share: the figures as they happened, the replays of it, and the back-test."""

    history: History
    happened: SearchFigures
    people: Fitted
    replayed: Sequence[SearchFigures]
    back_test: tuple[BackTest, ...]


def forecast(history: History, change: Change, *, progress: Report = unreported) -> Forecast:
    """Return the forecast of a change. It computes for up to two minutes and touches no database.

    Raises ValidationFailed for a change that can't be tried, and NotEnoughHistory.
    """
    change.check()
    return compare(basis(history, progress=part(progress, 0.0, 0.5)), change, progress=part(progress, 0.5, 1.0))


def basis(history: History, *, progress: Report = unreported) -> Basis:
    """Fit people, judge them by the last days, and replay the history. Raises NotEnoughHistory."""
    _check(history)
    progress(0.0, "the last days, forecast by the days before")
    since = history.until - DAYS_JUDGED * DAY
    people = Fitted(history, [history.answers, history.recent], history.searches, as_known=True)
    as_it_was = Replay(
        history.searches, history.shifts, history.in_force, people, mitras=history.mitras,
        since=history.since, until=history.until, as_it_was=True,
    )  # fmt: skip
    happened = figures.of_history(as_it_was.play(), history)
    recent = total(happened.days[-DAYS_JUDGED:]).values()
    seeds = range(max(1, min(MOST_REPLAYS, REQUESTS // max(1, sum(history.rung)))))
    earlier = [one for one in history.searches if one.ended_at < since]
    before = Fitted(history, [history.answers], earlier, as_known=False)
    judged = [_replay(history, before.draw(seed), history.in_force, since=since) for seed in seeds]
    guess = total(day for one in judged for day in one.days).values()
    replayed = []
    for seed in seeds:
        progress(0.3 + 0.7 * seed / len(seeds), "the history as it was")
        replayed.append(_replay(history, people.draw(seed), history.in_force))
    return Basis(
        history=history,
        happened=happened,
        people=people,
        replayed=replayed,
        back_test=tuple(BackTest(figure=one, forecast=guess[one], happened=recent[one]) for one in FIGURES),
    )


def compare(base: Basis, change: Change, *, progress: Report = unreported) -> Forecast:
    """Return the forecast of a change. Raises NotEnoughHistory if too much of it is guessed."""
    history, then = base.history, []
    tries = [attrs.evolve(history.in_force[0], settings=tried({**history.values, **change.settings}))]
    shifts, mitras = extra(change, history.mitras, history.zone, history.since, history.until)
    for seed in range(len(base.replayed)):
        progress(seed / len(base.replayed), "the history with the change")
        then.append(_replay(history, base.people.draw(seed), tries, more=shifts, mitras=mitras))
    now = base.replayed
    if len(history.in_force) > 1:  # what happened was under other settings
        now = [_replay(history, base.people.draw(seed), history.in_force[-1:]) for seed in range(len(now))]
    guessed = sum(one.guessed for one in then) / max(1, sum(day.waits.total() for one in then for day in one.days))
    if guessed > MOST_GUESSED:
        raise NotEnoughHistory(details={"guessed_share": round(guessed, 3), "most_guessed_share": MOST_GUESSED})
    return _answer(base, now, then, guessed)


def _check(history: History) -> None:
    counts = [
        count for some in (history.answers, history.recent) for (*_, answer), (count, _) in some.items() if answer
    ]
    there = {
        "days": history.days,
        "searches": sum(not one.is_targeted and one.began_at >= history.since for one in history.searches),
        "answers": sum(counts),
    }
    least = {"days": LEAST_DAYS, "searches": LEAST_SEARCHES, "answers": LEAST_ANSWERS}
    if any(there[name] < least[name] for name in least):
        raise NotEnoughHistory(details={**there, **{f"least_{name}": count for name, count in least.items()}})


def _replay(
    history: History,
    people: Fitted,
    in_force: Sequence[SettingsSince],
    *,
    since: dt.datetime | None = None,
    more: Sequence[Shift] = (),
    mitras: Sequence[str] = (),
) -> SearchFigures:
    since = since or history.since
    replay = Replay(
        history.searches, [*history.shifts, *more], in_force, people, mitras=mitras or history.mitras,
        since=since, until=history.until,
    )  # fmt: skip
    return figures.of_replay(replay.play(), history, since=since)


def extra(
    change: Change, mitras: Sequence[str], zone: str, since: dt.datetime, until: dt.datetime
) -> tuple[list[Shift], list[str]]:
    """Return the shifts of the mitras who would be online as well, and the names of all mitras."""
    names, shifts, place = list(mitras), [], zoneinfo.ZoneInfo(zone)
    for shift in change.extra_shifts:
        numbers = range(len(names), len(names) + shift.mitras)
        names += [f"extra {number}" for number in numbers]
        for day in (since.astimezone(place).date() + number * DAY for number in range((until - since) // DAY + 1)):
            if day.isoweekday() != shift.weekday:
                continue
            begin = dt.datetime.combine(day, shift.begins, place).astimezone(dt.UTC)
            end = dt.datetime.combine(day if shift.ends > shift.begins else day + DAY, shift.ends, place)
            for number in numbers:
                shifts.append(Shift(at=begin, mitra=number, is_online=True))
                shifts.append(Shift(at=end.astimezone(dt.UTC), mitra=number, is_online=False))
    return shifts, names


def _answer(base: Basis, now: Sequence[SearchFigures], then: Sequence[SearchFigures], guessed: float) -> Forecast:
    happened = base.happened.values()
    before, present, after = (_mean([one.values() for one in some]) for some in (base.replayed, now, then))

    def moved(key: Any) -> dict[str, float]:
        """Return what happened, plus the difference of replays: at present, and with the change."""
        own = happened.get(key, 0.0) - before.get(key, 0.0)
        return {"present": max(0.0, own + present.get(key, 0.0)), "forecast": max(0.0, own + after.get(key, 0.0))}

    spread, rows = _spread(base, then), []
    for test in base.back_test:
        low, high = ((edge**2 + (test.forecast - test.happened) ** 2) ** 0.5 for edge in spread[test.figure])
        middle = moved(test.figure)
        rows.append(
            Row(
                figure=test.figure,
                low=max(0.0, middle["forecast"] - low),
                high=middle["forecast"] + high,
                **middle,
            )
        )
    most = max((key[1] for key in {*happened, *present, *after} if key[0] == "load"), default=0)
    return Forecast(
        rows=tuple(rows),
        back_test=base.back_test,
        by_hour=tuple(
            HourOfWeek(weekday=key[0], hour=key[1], searches=day.searches, **moved(key))
            for key, day in sorted(base.happened.hours.items())
        ),
        waits=tuple(Bar(upto=upto, **moved(("wait", place))) for place, upto in enumerate([*UPTO_S, None])),
        loads=tuple(Bar(upto=chats, **moved(("load", chats))) for chats in range(most + 1)),
        guessed=guessed,
        days=base.history.days,
        searches=sum(day.searches for day in base.happened.days),
    )


def _mean(some: Sequence[Values]) -> Values:
    return {key: sum(one.get(key, 0.0) for one in some) / len(some) for key in {key for one in some for key in one}}


def _spread(base: Basis, then: Sequence[SearchFigures]) -> dict[str, tuple[float, float]]:
    """Return how far below and above its mean the difference of two replays lies, by drawing days (bootstrap)."""
    draws, days = random.Random(0), range(len(base.happened.days))
    found: dict[str, list[float]] = {name: [] for name in FIGURES}
    for _ in range(DRAWN):
        drawn, seed = draws.choices(days, k=len(days)), draws.randrange(len(then))
        before, after = (total(some[seed].days[day] for day in drawn).values() for some in (base.replayed, then))
        for name in FIGURES:
            found[name].append(after[name] - before[name])
    edge = round((1.0 - INTERVAL) / 2 * DRAWN)
    return {name: _edges(sorted(values), edge) for name, values in found.items()}


def _edges(values: Sequence[float], edge: int) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean - values[edge], values[-1 - edge] - mean
