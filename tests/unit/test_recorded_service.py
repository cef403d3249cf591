"""A replay equals real processes search by search, if it acts at the moments at which they did.

recorded_service.json has 100 searches of the three processes on a busy machine, at sixty times real speed: each 10 ms
that a process is late are 0.6 s of the service. An acceptance after the end of a round counts as long as the process
has not ended the round, which decided three of these searches. All times are microseconds.
"""

import collections
import datetime as dt
import json
import pathlib
from typing import Any

from core.pairing.simulation.history import PastSearch
from core.pairing.simulation.replay import Mitra, Run
from tests.unit.made_up_worlds import SINCE, WatchedReplay, plan

INSTANT = dt.timedelta(microseconds=1)
LATE = dt.timedelta(seconds=2)  # 33 ms of the machine: what was due so shortly before its search ended was not done


def moment(at: int | None) -> dt.datetime | None:
    return None if at is None else SINCE + at * INSTANT


class Recorded:
    """What the service did, as the people of a replay."""

    def __init__(self) -> None:
        text = pathlib.Path(__file__).with_name("recorded_service.json").read_text()
        found: dict[str, Any] = json.loads(text)
        self.requests = collections.defaultdict[int, list[Any]](list)  # of each search: mitra, asked, answer
        for search, mitra, at, answer, answered_at in found["requests"]:
            one = str(mitra), SINCE + at * INSTANT, answer, moment(answered_at)
            self.requests[search].append(one)
        self.rounds: list[list[dt.datetime | None]] = []
        searches = []
        for number, (began_at, ended_at, outcome, mitra, freed_at, rounds) in enumerate(found["searches"]):
            self.rounds.append(list(map(moment, rounds)))
            searches.append(
                PastSearch(
                    number=number, customer="", outcome=outcome, mitra=None if mitra is None else str(mitra),
                    began_at=SINCE + began_at * INSTANT, ended_at=SINCE + ended_at * INSTANT, freed_at=moment(freed_at),
                )
            )  # fmt: skip
        shifts = [(SINCE + at * INSTANT, str(mitra), bool(is_on)) for at, mitra, is_on in found["shifts"]]
        self.history = plan(searches, shifts, found["values"], until=SINCE + found["until"] * INSTANT)

    def answer(self, run: Run, mitra: Mitra, before: int) -> tuple[dt.timedelta, bool] | None:
        now = run.open[mitra][3]
        of_mitra = [one for one in self.requests[run.past.number] if one[0] == mitra.name]
        later = [(at, answer == "a") for _, _, answer, at in of_mitra if answer and at > now]
        return (later[0][0] - now, later[0][1]) if later else None

    def is_guess(self, load: int, before: int) -> bool:
        return False

    def patience(self, run: Run) -> dt.timedelta | None:
        return run.past.ended_at - run.past.began_at if run.past.outcome == "cancelled" else None

    def retry(self, run: Run) -> None:
        return None

    def hold(self, past: PastSearch, attempt: int) -> dt.timedelta:
        return (past.freed_at or self.history.until) - past.ended_at

    def end_of_round(self, run: Run, due: dt.datetime) -> dt.datetime:
        """Return when the service ended the present round of a search: just after the search, if that ended it."""
        known = dict(enumerate(self.rounds[run.past.number], 1)).get(run.search.round.number) or due
        return max(due, known + INSTANT * (known == run.past.ended_at and run.past.outcome != "failed"))

    def asked_at(self, run: Run, due: dt.datetime) -> dt.datetime:
        """Return when the service next asked mitras in a search, because of something that was due; just after the
        search, if that ended shortly after. Otherwise it had nothing to do."""
        later = [asked for _, asked, *_ in self.requests[run.past.number] if asked >= due]
        return min(later, default=run.past.ended_at + INSTANT if run.past.ended_at - due <= LATE else due)


class RecordedReplay(WatchedReplay):
    """A replay that ends rounds and waves and asks more mitras when the service did."""

    @property
    def _recorded(self) -> Recorded:
        assert isinstance(self._people, Recorded)
        return self._people

    def _at(self, at: dt.datetime, act: Any, *what: Any) -> None:
        if act == self._end_round:
            at = self._recorded.end_of_round(what[0], at)
        elif act == self._end_wave:
            at = self._recorded.asked_at(what[0], at)
        super()._at(at, act, *what)

    def _ask(self, now: dt.datetime, run: Run, only: Mitra | None = None) -> None:
        at = now if only is None else self._recorded.asked_at(run, now)
        if at == now:
            super()._ask(now, run, only)
        else:
            self._at(at, self._ask_late, run, only)

    def _ask_late(self, now: dt.datetime, run: Run, only: Mitra) -> None:
        if run.outcome is None and now < run.search.round.ends_at and only in self._free and self._may_ask(run, only):
            super()._ask(now, run, only)


# Searches in which the service asked within 40 ms of another transaction that it could not see yet: of an acceptance,
# or of a mitra who came online.
UNSEEN = {35, 59, 80}


def test_replay_at_the_recorded_moments_equals_the_service() -> None:
    recorded = Recorded()
    replay = RecordedReplay(recorded.history, recorded)
    asked = collections.defaultdict[int, set[Any]](set)
    for one in replay.noted:
        asked[one.run.past.number].add((one.mitra, one.at))
    for run, past in zip(replay.runs, recorded.history.searches, strict=True):
        assert (run.outcome, run.mitra, run.ended_at) == (past.outcome, past.mitra, past.ended_at), past.number
        if past.number not in UNSEEN:
            requests = {(mitra, at) for mitra, at, *_ in recorded.requests[past.number]}
            assert asked[past.number] == requests, past.number
    punctual = WatchedReplay(recorded.history, recorded)  # without the lateness, only these three end otherwise
    others = [
        run.past.number for run in punctual.runs if (run.outcome, run.mitra) != (run.past.outcome, run.past.mitra)
    ]
    assert others == [55, 94, 95]
