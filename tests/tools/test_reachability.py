"""`sesi bench reachability` in a smaller form: the status of phones that fall silent, with the row off and on."""

import datetime as dt
from collections.abc import Iterator

import attrs
import pytest

from tests.scrape import scrape
from tests.stack import Stack, World
from tools.bench.reachability.main import ReachabilityTrial, lines, measure, missed
from tools.bench.reachability.phones import Fate, Reached, Timetable, compare, intervals
from tools.driving.push_inbox import PushInbox
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio

# At ten times real speed: asked after a silence of 30 s, offline after 50 s. A phone in the background falls silent at
# 10 s, answers at about 42 s and 74 s, and would be asked again at 104 s: far from the end on both sides.
SCALE, CADENCE_S, STALE_S = 10, 10, 50
SMALL = Timetable(cadence_s=CADENCE_S, silent_at_s=11, turn_at_s=66, online_at_s=70, seconds=90)
PHONES = 2
KINDS = (Fate.AWAKE, Fate.BACKGROUND, Fate.DEAD, Fate.FLIGHT, Fate.REVOKED)
TOKENS = "SELECT count(*)::int FROM auth_sessions WHERE push_token IS NOT NULL"


@pytest.fixture(scope="module")
def inbox() -> Iterator[PushInbox]:
    """Yield the simulated push provider."""
    made = PushInbox()
    yield made
    made.close()


@pytest.fixture(scope="module")
def stack(inbox: PushInbox) -> Iterator[Stack]:
    """Yield a fast service with two jobs processes that sends its pushes to the simulated provider."""
    made = Stack(**inbox.environment, scale=SCALE, MITRA_HEARTBEAT_CADENCE_SECONDS=str(CADENCE_S))
    made.start("jobs", key="jobs2", JOBS_PORT=str(free_port()))
    yield made
    made.close()


async def test_row_keeps_phones_in_the_background_online_and_no_others(stack: Stack, inbox: PushInbox) -> None:
    world = World(stack)
    await world.config("mitra_stale_after_seconds", STALE_S)
    trials: list[ReachabilityTrial] = []
    for probe in (False, True):
        trials.append(await measure(stack, inbox, SMALL, probe=probe, phones=PHONES, kinds=KINDS))
        assert await stack.sql(TOKENS) == [(len(KINDS) * PHONES * len(trials) - (PHONES if probe else 0),)]
    assert missed(trials, scale=SCALE, stale_s=STALE_S) == []
    found = {one.kind: one for one in trials[1].found}
    assert found[Fate.BACKGROUND].checks >= PHONES
    assert found[Fate.AWAKE].checks == 0
    silent = len(KINDS) - 1
    checked = [m["token"] for m in inbox.messages if m["data"]["action"] == "presence_check"]
    assert len(set(checked)) == silent * PHONES
    assert len(checked) == found[Fate.BACKGROUND].checks + (silent - 1) * PHONES  # an unanswered one is not repeated
    asked = scrape(stack.ports["JOBS"])["sesi_presence_checks_total"].get(("asked",), 0)
    assert asked <= len(checked)
    reached = await (await world.operator()).get("/internal/mitras?limit=100")
    woken = [one for one in reached["items"] if one["reachable_at"] is not None]
    assert len(woken) == PHONES
    assert all(one["reachable_at"] <= one["last_heartbeat_at"] for one in woken)
    await world.close()


# -- the figures

AT = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)


def at(seconds: float) -> dt.datetime:
    """Return a moment after the beginning."""
    return AT + dt.timedelta(seconds=seconds)


def test_time_online_is_counted_between_the_beginning_and_the_end() -> None:
    changes = [(at(-5), True), (at(10), False), (at(20), True)]
    assert intervals(changes, AT, 30) == [(0, 10), (20, 30)]
    assert intervals([], AT, 30) == []


def test_status_is_compared_with_when_the_phone_could_be_reached() -> None:
    one = compare(Fate.FLIGHT, SMALL, [[(0, 60), (70, 90)], [(0, 11), (66, 90)]], 0)
    assert (one.false_online_s, one.false_offline_s) == (60 - 11, 70 - 66)
    assert (one.false_online, one.false_offline, one.phones) == (1, 1, 2)


def test_trial_in_which_the_row_keeps_dead_phones_online_misses_its_goal() -> None:
    dead = Reached(
        kind=Fate.DEAD, phones=1, false_online_s=40, false_offline_s=0, false_online=1, false_offline=0, checks=0
    )
    off, on = (
        ReachabilityTrial(probe=False, found=[dead]),
        ReachabilityTrial(probe=True, found=[attrs.evolve(dead, false_online_s=80)]),
    )
    assert missed([on, off]) == ["dead: longer falsely online with the row on"]
    assert missed([off, attrs.evolve(off, probe=True)]) == []
    assert lines([on, off]) == [["1 dead", "40 s (1)", "80 s (1)", "0 s (0)", "0 s (0)", "0"]]
