"""A short run of `make chaos`: the same users, faults and checks, for some seconds."""

import pytest

from tests.faults.chaos.run import Plan, chaos
from tests.faults.chaos.schedule import KINDS, LIBRARY_KINDS, Fault, schedule
from tests.verdicts import Violation

pytestmark = pytest.mark.anyio


def check_notes(violations: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Check that the judge of a run found nothing. Raises Violation with the run's output."""
    if violations:
        raise Violation(capsys.readouterr().out)


@pytest.mark.timeout(400)
async def test_short_run_with_many_faults_has_no_violations(capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(seed=2921, seconds=20, customers=6, mitras=3, pace=0.55, api=2, realtime=2, jobs=1, fair=True)
    notes = await chaos(plan)
    check_notes(notes.violations, capsys)
    assert notes.counts["sessions"] >= 4
    assert len(notes.acks) >= 50


@pytest.mark.timeout(300)
async def test_phones_of_the_library_that_fail_and_restart_show_what_is_stored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    faults = (
        Fault(at=2, kind="phones lose the network", whom=0, seconds=0),
        Fault(at=4, kind="phones restart", whom=1, seconds=0),
        Fault(at=5, kind="phones hang", whom=0, seconds=2),
        Fault(at=8, kind="phones restart", whom=0, seconds=0),
    )
    plan = Plan(seed=1, seconds=8, customers=4, mitras=2, api=1, realtime=1, jobs=1, library=True, faults=faults)
    notes = await chaos(plan)
    check_notes(notes.violations, capsys)
    assert notes.counts["sessions"] >= 3
    assert len(notes.acks) >= 50


def test_schedule_is_determined_by_its_seed() -> None:
    assert schedule(5, seconds=60, pace=1) == schedule(5, seconds=60, pace=1)
    assert schedule(5, seconds=60, pace=1) != schedule(6, seconds=60, pace=1)


@pytest.mark.parametrize("library", [False, True])
def test_schedules_contain_every_kind_of_fault_within_the_run(library: bool) -> None:
    found = [fault for seed in range(40) for fault in schedule(seed, seconds=100, pace=1, library=library)]
    assert {fault.kind for fault in found} == (set(KINDS | LIBRARY_KINDS) if library else set(KINDS))
    assert all(fault.at + fault.seconds <= 100.1 for fault in found)
