"""Forecast what a change of settings does: what happened, plus the difference of two replays (docs/simulation.md)."""

import datetime as dt
import math
import random
import zoneinfo
from collections.abc import Sequence
from typing import Any

import attrs

from core.base.progress import Report, part, unreported
from core.config.cache import Config
from core.pairing.simulation import rules
from core.pairing.simulation.figures import UPTO_S, Day, Values, days_of, parts, total, values
from core.pairing.simulation.history import History, answered
from core.pairing.simulation.people import Fitted
from core.pairing.simulation.replay import People, Replay
from core.pairing.simulation.rules import DAY, FIGURES, WEEK, BackTest, Bar, Change, Forecast, HourOfWeek, Row

MOST_REPLAYS = 8  # of each kind, with other draws
REQUESTS = 400_000  # of the replays of a kind together, about
DRAWN = 200  # draws of days
EDGE = 10  # draws on either side of an interval of nine tenths


def forecast(history: History, change: Change, *, progress: Report = unreported) -> Forecast:
    """Return the forecast of a change. It computes for up to two minutes and touches no database.

    Raises ValidationFailed for a change that can't be tried, and NotEnoughHistory.
    """
    change.check()
    return Basis(history, progress=part(progress, 0.0, 0.5)).compare(change, progress=part(progress, 0.5, 1.0))


def changed(history: History, change: Change) -> History:
    """Return the history with other settings from its beginning, and with the mitras who would be online as well."""
    config = Config(**{**history.in_force[-1][1].values, **change.settings})
    zone, extra, shifts = zoneinfo.ZoneInfo(config.text(rules.ZONE)), len(history.mitras), list(history.shifts)
    first, days = history.since.astimezone(zone).date(), (history.until - history.since) // DAY + 1
    for count, weekday, begins, ends in (one for text in change.extra_shifts for one in rules.SHIFT.findall(text)):
        names = [f"extra {extra + number}" for number in range(int(count))]
        extra += len(names)
        for day in (first + number * DAY for number in range(days)):
            if rules.WEEKDAYS[day.weekday()] == weekday:
                edges = (day, begins, True), (day if ends > begins else day + DAY, ends, False)
                for name in names:
                    for date, at, is_online in edges:
                        moment = dt.datetime.combine(date, dt.time.fromisoformat(at), zone)
                        shifts.append((moment.astimezone(dt.UTC), name, is_online))
    return attrs.evolve(history, in_force=[(history.since - DAY, config)], shifts=shifts)


def played(history: History, people: People) -> list[Day]:
    """Replay a history; return the counts of its days."""
    replay = Replay(history, people)
    return days_of(history, replay.runs, replay.loads)


class Basis:
    """What all forecasts from a history share: people fitted to it, what happened, the replays of it, the back-test."""

    def __init__(self, history: History, *, progress: Report = unreported) -> None:
        """Raises NotEnoughHistory."""
        searches = [one for one in history.searches if not one.is_targeted]
        began = [one.began_at for one in history.searches] or [history.until]
        self._history, self.days = history, (history.until - max(history.since, began[0])) // DAY
        there = sum(one.began_at >= history.since for one in searches)
        answers = sum(map(answered, history.answers.values()))
        rules.check_history({"days": self.days, "searches": there, "answers": answers})
        progress(0.0, "the last days, forecast by the days before")
        self._people = Fitted(history, history.answers, history.searches, as_known=True)
        self._happened = days_of(history, searches, Replay(history, self._people, as_it_was=True).loads)
        for day, rung in zip(self._happened, history.rung, strict=True):
            day["rung"][0] = rung
        seeds = range(max(1, min(MOST_REPLAYS, REQUESTS // max(1, sum(history.rung)))))
        last = attrs.evolve(history, since=history.until - WEEK)
        then = [one for one in history.searches if one.ended_at < last.since]
        before = Fitted(history, history.earlier, then, as_known=False)
        guess = values(total(day for seed in seeds for day in played(last, before.draw(seed))))
        recent = values(total(self._happened[-7:]))
        self.back_test = tuple(BackTest(figure=one, forecast=guess[one], happened=recent[one]) for one in FIGURES)
        self._replayed: list[list[Day]] = []
        for seed in seeds:
            progress(0.3 + 0.7 * seed / len(seeds), "the history as it was")
            self._replayed.append(played(history, self._people.draw(seed)))

    def compare(self, change: Change, *, progress: Report = unreported) -> Forecast:
        """Return the forecast of a change. Raises NotEnoughHistory if too much of it is guessed."""
        history, now, then = self._history, self._replayed, []
        tried = changed(history, change)
        for seed in range(len(now)):
            progress(seed / len(now), "the history with the change")
            then.append(played(tried, self._people.draw(seed)))
        if len(history.in_force) > 1:  # what happened was under other settings
            present = changed(history, Change(settings={}))
            now = [played(present, self._people.draw(seed)) for seed in range(len(now))]
        whole = total(day for days in then for day in days)
        guessed = whole["guessed"].total() / max(1, whole["wait"].total())
        if guessed > rules.MOST_GUESSED:
            details = {"guessed_share": round(guessed, 3), "most_guessed_share": rules.MOST_GUESSED}
            raise rules.NotEnoughHistory(details=details)
        return self._answer(now, then, guessed)

    def _answer(self, now: Sequence[list[Day]], then: Sequence[list[Day]], guessed: float) -> Forecast:
        whole = total(self._happened)
        happened, (before, present, after) = parts(whole), map(_mean, (self._replayed, now, then))

        def moved(key: Any) -> dict[str, float]:
            """Return what happened, plus the difference of replays: at present, and with the change."""
            own = happened.get(key, 0.0) - before.get(key, 0.0)
            return {"present": max(0.0, own + present.get(key, 0.0)), "forecast": max(0.0, own + after.get(key, 0.0))}

        rows, drawn = [], self._drawn(then)
        for test in self.back_test:
            middle, error = moved(test.figure), test.forecast - test.happened
            moves = sorted(later[test.figure] - earlier[test.figure] for earlier, later in drawn)
            mean = sum(moves) / DRAWN
            low, high = math.hypot(mean - moves[EDGE], error), math.hypot(moves[-1 - EDGE] - mean, error)
            edges = {"low": max(0.0, middle["forecast"] - low), "high": middle["forecast"] + high}
            rows.append(Row(figure=test.figure, **middle, **edges))
        most = max((key[1] for key in {*happened, *present, *after} if key[0] == "load"), default=0)
        return Forecast(
            rows=tuple(rows),
            back_test=self.back_test,
            by_hour=tuple(
                HourOfWeek(weekday=hour // 24 + 1, hour=hour % 24, searches=count, **moved(("unserved", hour)))
                for hour, count in sorted(whole["searches"].items())
            ),
            waits=tuple(Bar(upto=upto, **moved(("wait", place))) for place, upto in enumerate([*UPTO_S, None])),
            loads=tuple(Bar(upto=chats, **moved(("load", chats))) for chats in range(most + 1)),
            guessed=guessed,
            days=self.days,
            searches=whole["searches"].total(),
        )

    def _drawn(self, then: Sequence[list[Day]]) -> list[tuple[Values, Values]]:
        """Return the figures of two replays, without and with the change, for draws of days (bootstrap)."""
        draws, days, found = random.Random(0), range(len(self._happened)), []
        for _ in range(DRAWN):
            drawn, seed = draws.choices(days, k=len(days)), draws.randrange(len(then))
            before, after = (values(total(some[seed][day] for day in drawn)) for some in (self._replayed, then))
            found.append((before, after))
        return found


def _mean(replays: Sequence[list[Day]]) -> Values:
    """Return the mean figures and parts of replays; a part that one does not have counts as 0."""
    found = [parts(total(days)) for days in replays]
    return {key: sum(one.get(key, 0.0) for one in found) / len(found) for key in {key for one in found for key in one}}
