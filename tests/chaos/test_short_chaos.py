"""A short run of `make chaos`: the same people, faults and judges, for some seconds."""

import pytest

from tests.chaos.run import Plan, chaos
from tests.chaos.schedule import KINDS, schedule

pytestmark = pytest.mark.anyio


@pytest.mark.timeout(400)
async def test_a_short_run_with_many_faults_ends_with_everything_right(capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(seed=2921, seconds=20, customers=6, mitras=3, pace=0.55, api=2, realtime=2, jobs=1)
    notes = await chaos(plan)
    assert notes.violations == [], capsys.readouterr().out
    assert notes.counts["sessions"] >= 4
    assert len(notes.acks) >= 50


def test_a_seed_determines_the_schedule() -> None:
    assert schedule(5, seconds=60, pace=1) == schedule(5, seconds=60, pace=1)
    assert schedule(5, seconds=60, pace=1) != schedule(6, seconds=60, pace=1)


def test_every_kind_of_fault_comes_up_and_none_outlasts_the_run() -> None:
    found = [fault for seed in range(40) for fault in schedule(seed, seconds=100, pace=1)]
    assert {fault.kind for fault in found} == set(KINDS)
    assert all(fault.at + fault.seconds <= 100.1 for fault in found)
