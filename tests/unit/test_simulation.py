"""Simulations: replays keep the rules, and forecasts of made-up worlds come true (docs/simulation.md)."""

import collections
import datetime as dt
import statistics
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base.errors import ValidationFailed
from core.pairing.simulation import figures
from core.pairing.simulation.forecast import Basis, basis, compare, forecast
from core.pairing.simulation.history import History, SearchOutcome, SettingsSince, in_force
from core.pairing.simulation.people import Fitted
from core.pairing.simulation.replay import Mitra
from core.pairing.simulation.rules import FIGURES, Change, ExtraShift, NotEnoughHistory, tried
from tests.tiers import examples
from tests.unit.made_up_worlds import DAY, SINCE, VALUES, WatchedReplay, World

SETTINGS = st.fixed_dictionaries(
    {
        "blast_size": st.sampled_from([0, 0, 1, 2, 5]),
        "blast_wave_seconds": st.sampled_from([5, 10, 15, 25]),
        "pairing_blast_timeout_seconds": st.sampled_from([20, 30, 60]),
        "searching_timeout_minutes": st.sampled_from([1, 2, 5]),
        "max_customers_per_mitra": st.sampled_from([1, 2, 3]),
    }
)
CHANGES = {
    "waves": Change(settings={"blast_size": 5, "blast_wave_seconds": 15}),
    "small waves": Change(settings={"blast_size": 2, "blast_wave_seconds": 10}),
    "capacity 2": Change(settings={"max_customers_per_mitra": 2}),
    "capacity 4": Change(settings={"max_customers_per_mitra": 4}),
    "short search": Change(settings={"searching_timeout_minutes": 3}),
    "long search": Change(settings={"searching_timeout_minutes": 8}),
    "extra shift": Change(settings={}, extra_shifts=(ExtraShift.parse("2@fri/18:00-22:00"),)),
}
MOST_ERROR = {"unserved": 0.08, "wait_p50": 0.05, "wait_p90": 0.10, "phones_rung": 0.05}


class CheckedReplay(WatchedReplay):
    """A replay that checks at each step that time does not go back and no mitra has more chats than they may."""

    last = SINCE - 2 * DAY

    def _note(self, now: dt.datetime, mitra: Mitra) -> None:
        assert now >= self.last or now == self._until
        self.last = now
        super()._note(now, mitra)

    def _begin_chat(self, now: dt.datetime, mitra: Mitra, hold: dt.timedelta) -> None:
        super()._begin_chat(now, mitra, hold)
        assert mitra.load <= self._settings.capacity
        assert mitra.is_online


SMALL = World(0, days=14, a_day=40.0, mitras=8)


@pytest.fixture(scope="module")
def small() -> History:
    return SMALL.history()


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**16), SETTINGS)
def test_replay_keeps_the_rules(seed: int, values: dict[str, int]) -> None:
    world = World(seed, days=1, a_day=60.0, mitras=5)
    replay = CheckedReplay(
        world.arrivals, world.shifts, [SettingsSince(at=SINCE, settings=tried(values))], world, mitras=world.names,
        since=SINCE, until=world.until,
    )  # fmt: skip
    replay.play()
    first = [run for run in replay.runs if run.attempt == 0]
    assert [run.past for run in first] == world.arrivals  # each search begins once, in order, and ends once
    limits = tried(values).limits
    for run in replay.runs:
        assert run.outcome is not None
        assert run.ended_at is not None
        assert run.began_at <= run.ended_at <= run.began_at + limits.search
        assert (run.outcome is SearchOutcome.PAIRED) == (run.mitra is not None)
        assert not run.open
    assert sum(run.rings for run in replay.runs) == len(replay.noted)
    assert all(0.0 <= one.seconds <= limits.blast_round.total_seconds() for one in replay.noted)
    accepted = sum(one.response == "ACCEPTED" for one in replay.noted)
    assert accepted == sum(run.outcome is SearchOutcome.PAIRED for run in replay.runs)


def test_replay_of_everything_as_it_was_has_the_figures_that_happened(small: History) -> None:
    lived = figures.of_replay(SMALL.live(), small, since=SINCE)
    people = Fitted(small, [small.answers], small.searches, as_known=True)
    replay = WatchedReplay(
        small.searches, small.shifts, small.in_force, people, mitras=small.mitras, since=SINCE, until=small.until,
        as_it_was=True,
    )  # fmt: skip
    happened = figures.total(figures.of_history(replay.play(), small).days).values()
    for name, value in figures.total(lived.days).values().items():
        assert happened[name] == pytest.approx(value, rel=1e-4), name


@pytest.fixture(scope="module")
def base(small: History) -> Basis:
    return basis(small)


def test_no_change_is_forecast_as_what_happened(base: Basis) -> None:
    found = compare(base, Change(settings=VALUES))
    assert [row.figure for row in found.rows] == list(FIGURES)
    for row in found.rows:
        assert row.present == pytest.approx(row.forecast)
        assert row.low <= row.forecast <= row.high


def test_forecast_says_how_it_was_made(base: Basis) -> None:
    reports: list[float] = []
    found = compare(base, CHANGES["capacity 2"], progress=lambda share, _: reports.append(share))
    assert reports == sorted(reports)
    json = found.to_json()
    assert {one["figure"] for one in json["back_test"]} == set(FIGURES)
    assert sum(bar["present"] for bar in json["waits"]) == pytest.approx(1.0)
    assert json["loads"][3]["present"] > 0.0 == pytest.approx(json["loads"][3]["forecast"], abs=0.02)
    assert all(1 <= one["weekday"] <= 7 and 0 <= one["hour"] <= 23 for one in json["by_hour"])
    assert sum(one["searches"] for one in json["by_hour"]) == json["searches"]


@pytest.mark.parametrize(
    ("less", "missing"),
    [
        ({"since": SINCE + 3 * DAY}, "days"),
        ({"searches": []}, "searches"),
        ({"answers": {}, "recent": {}}, "answers"),
    ],
)
def test_short_history_is_refused_with_what_is_missing(small: History, less: dict[str, Any], missing: str) -> None:
    with pytest.raises(NotEnoughHistory) as refused:
        forecast(attrs.evolve(small, **less), Change(settings={}))
    assert refused.value.details is not None
    assert refused.value.details[missing] < refused.value.details[f"least_{missing}"]


def test_forecast_that_is_mostly_guessed_is_refused(small: History) -> None:
    known = {key: (99 * count, 99 * seconds) for key, (count, seconds) in small.answers.items() if key[1:3] == (0, 1)}
    with pytest.raises(NotEnoughHistory) as refused:
        forecast(attrs.evolve(small, answers=known, recent={}), Change(settings={}))
    assert refused.value.details is not None
    assert refused.value.details["guessed_share"] > refused.value.details["most_guessed_share"]


@pytest.mark.parametrize(
    "values", [{"extension_timeout_seconds": 5}, {"blast_size": -1}, {"max_customers_per_mitra": 0}]
)
def test_rows_that_can_not_be_tried_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(ValidationFailed):
        Change(settings=values).check()


@pytest.mark.parametrize("text", ["2@fri/18:00-22:00", "12@mon/22:30-02:00"])
def test_extra_shift_is_read_and_written_alike(text: str) -> None:
    assert str(ExtraShift.parse(text)) == text


@pytest.mark.parametrize("text", ["", "2@fr/18:00-22:00", "2@fri/18-22", "2@fri/25:00-26:00", "-1@fri/18:00-22:00"])
def test_odd_extra_shift_is_refused(text: str) -> None:
    with pytest.raises(ValidationFailed):
        ExtraShift.parse(text)


def test_settings_in_force_follow_from_the_values_before_each_change() -> None:
    changes = [
        {"name": "blast_size", "at": SINCE + 5 * DAY, "value": 3},
        {"name": "max_customers_per_mitra", "at": SINCE + 2 * DAY, "value": None},
        {"name": "blast_size", "at": SINCE + DAY, "value": 0},
    ]
    found = in_force({**VALUES, "blast_size": 7, "max_customers_per_mitra": 9}, changes, SINCE)
    assert [(one.at, one.settings.waves.size, one.settings.capacity) for one in found] == [
        (SINCE - DAY, 0, 3),
        (SINCE + DAY, 3, 3),
        (SINCE + 2 * DAY, 3, 9),
        (SINCE + 5 * DAY, 7, 9),
    ]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_forecasts_of_ten_worlds_come_true() -> None:
    errors: dict[str, list[float]] = collections.defaultdict(list)
    inside: list[bool] = []
    for seed in range(10):
        world = World(seed)
        history = world.history()
        base = basis(history)
        for name in [list(CHANGES)[(seed + number) % len(CHANGES)] for number in range(4)]:
            change = CHANGES[name]
            truth = figures.total(world.truth(change, history).days).values()
            found = compare(base, change)
            for row in found.rows:
                error = abs(row.forecast - truth[row.figure]) / truth[row.figure]
                errors[row.figure].append(error)
                errors[f"{row.figure}, {name}"].append(error)
                inside.append(row.low <= truth[row.figure] <= row.high)
    found_errors = {name: round(statistics.mean(some), 4) for name, some in errors.items()}
    assert {name: found_errors[name] for name in MOST_ERROR if found_errors[name] > MOST_ERROR[name]} == {}, (
        found_errors
    )
    assert statistics.mean(inside) >= 0.8


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mitras_who_change_with_the_setting_are_seen_by_no_back_test() -> None:
    world = World(1, eager=True)
    history = world.history()
    base = basis(history)
    change = CHANGES["small waves"]
    truth = figures.total(world.truth(change, history).days).values()["wait_p50"]
    row = next(row for row in compare(base, change).rows if row.figure == "wait_p50")
    test = next(one for one in base.back_test if one.figure == "wait_p50")
    assert test.forecast == pytest.approx(test.happened, rel=0.1)
    assert row.low > truth
