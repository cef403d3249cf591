"""Run a whole service under a schedule of faults while simulated users use it, and report every violation.

The service runs at real speed with the default configuration, so presence is judged as in production. Only session
deadlines, which would take longer than the run, are brought forward in the database (`_hurry`).

`make chaos SEED=… MINUTES=… CLIENT=… FAIR=1`, or `python -m tests.faults.chaos.run --seed 7 --minutes 3`. It prints the seed, the schedule,
the counts and the violations; the exit code is 1 if there are violations.
"""

import argparse
import asyncio
import contextlib
import datetime as dt
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable

import asyncpg
import attrs

from tests.faults import people as app
from tests.faults.chaos.acts import FaultInjector
from tests.faults.chaos.fairness import ROWS, Watch, check_time
from tests.faults.chaos.judge import all_online, judge, settled
from tests.faults.chaos.lives import ChaosWorld, Customer, LibraryWorld, Mitra, Notes
from tests.faults.chaos.loads import SCENARIOS
from tests.faults.chaos.operators import Operator
from tests.faults.chaos.schedule import Fault, schedule
from tests.faults.service import Service
from tools.driving.sesi_client import Refused

MOST_MINUTES = 10.0
WORKS_AGAIN_S, AFTER_RESTART_S = 5.0, 10.0  # docs/invariants.md#i12
# A search that a sweep finds after 60 s, a session with an extension, the grace period, a slow machine.
LIVES_END_S = 150.0
HURRY_EVERY_S, HURRY_AFTER_S, SOON_S = 1.0, 6.0, 2.0  # in real seconds: interval, age of a deadline, its new distance
# The errors of a query while the database is killed; the last one is from a connection lost in mid-statement.
DATABASE_AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
LIBRARY_TOKEN_S = "120"  # apps of the library renew their tokens during a run
OWN_TIME_S = 10.0  # what a whole session may take on a busy machine


@attrs.frozen(kw_only=True)
class Plan:
    """The size of a run."""

    seed: int
    seconds: float
    customers: int = 24
    mitras: int = 10
    pace: float = 2.0
    api: int = 3
    realtime: int = 2
    jobs: int = 3
    library: bool = False  # whether the phones are apps of the client library
    fair: bool = False  # whether every row of fairness is on
    faults: tuple[Fault, ...] | None = None  # None: the schedule of the seed


async def chaos(plan: Plan, *, say: Callable[[str], None] = print) -> Notes:
    """Run the service under faults; return the records of all users."""
    faults = schedule(plan.seed, seconds=plan.seconds, pace=plan.pace, library=plan.library)
    if plan.faults is not None:
        faults = list(plan.faults)
    say(f"seed {plan.seed}, {plan.seconds:.0f} s, {len(faults)} faults:")
    for fault in faults:
        say(str(fault))
    with tempfile.TemporaryDirectory(prefix="sesi-calls-") as folder:
        service = await asyncio.to_thread(_service, plan, folder)
        notes = Notes()
        crowd = LibraryWorld(service, notes) if plan.library else ChaosWorld(service, notes)
        acts = FaultInjector(service, notes)
        keeper = asyncio.create_task(acts.supervise())
        try:
            await _run(plan, crowd, acts, faults, say)
        finally:
            keeper.cancel()
            await crowd.close()
            try:
                await asyncio.to_thread(service.close)
            except AssertionError as undocumented:
                notes.violation(str(undocumented))
    return notes


def _service(plan: Plan, folder: str) -> Service:
    return Service(
        counts={"api": plan.api, "realtime": plan.realtime, "jobs": plan.jobs},
        ACCESS_TOKEN_SECONDS=LIBRARY_TOKEN_S if plan.library else "86400",
        WEBHOOK_FALLBACK_ENABLED="true",
        WEBHOOK_FALLBACK_DIR=folder,
        REFUNDS_ENABLED="true",
    )


async def _run(
    plan: Plan, crowd: ChaosWorld, acts: FaultInjector, faults: list[Fault], say: Callable[[str], None]
) -> None:
    notes = crowd.notes
    await crowd.operator()  # signs in before any fault
    if plan.fair:
        for key, value in ROWS.items():
            await crowd.config(key, value)
    customers_stop, mitras_stop = asyncio.Event(), asyncio.Event()
    dice = random.Random(plan.seed)
    watch = Watch(acts.service)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch.run()) if plan.fair else None
        hurry = group.create_task(_hurry(crowd))
        mitras = [Mitra(crowd, random.Random(dice.random()), f"m{n}") for n in range(plan.mitras)]
        for mitra in mitras:
            group.create_task(mitra.guarded(mitra.live(mitras_stop)))
        customers = [Customer(crowd, random.Random(dice.random()), f"c{n}") for n in range(plan.customers)]
        operator = Operator(crowd, random.Random(dice.random()), customers)
        lives = [group.create_task(user.guarded(user.live(customers_stop))) for user in (operator, *customers)]
        await acts.play(faults)
        await acts.end_faults()
        await _works_again(crowd, acts, say)
        customers_stop.set()
        _, stuck = await asyncio.wait(lives, timeout=LIVES_END_S)
        for life in stuck:
            notes.violation("a customer or the operator waits for an event that never arrives")
            life.cancel()
        await settled(crowd)
        hurry.cancel()
        if watching is not None:
            watching.cancel()
        await all_online(crowd, mitras)
        mitras_stop.set()
    await judge(crowd)
    if plan.fair:
        await check_time(crowd, watch)
    say("faults: " + ", ".join(f"{count} {kind}" for kind, count in sorted(acts.counts.items())))
    say("seen: " + ", ".join(f"{count} {what}" for what, count in sorted(notes.counts.items())))
    say(f"acknowledged messages: {len(notes.acks)}")


# Deadlines further ahead than a run lasts: the id of the row, the column, the time.
DEADLINES = f"""SELECT * FROM (
    SELECT id::text, 'expires_at' AS name, expires_at AS due FROM chat_sessions WHERE status = 'active'
    UNION ALL SELECT id::text, 'grace_ends_at', grace_ends_at FROM chat_sessions WHERE status IN ('expired', 'closing')
    UNION ALL SELECT id::text, 'answer_by', answer_by FROM session_extensions WHERE status = 'pending'
    UNION ALL SELECT id::text, 'ask_at', ask_at FROM refunds WHERE is_open_refund(status)) d
  WHERE due > {app.NOW} + make_interval(secs => $2)"""
SOON = {
    "answer_by": f"UPDATE session_extensions SET answer_by = {app.NOW} + make_interval(secs => $2) WHERE id = $3::uuid AND status = 'pending'",
    "ask_at": f"UPDATE refunds SET ask_at = {app.NOW} + make_interval(secs => $2) WHERE id = $3::uuid AND is_open_refund(status)",
}


async def _hurry(crowd: ChaosWorld) -> None:
    """Bring forward, until cancelled, every deadline that has existed for some seconds.

    A run would otherwise wait 12 minutes for the end of a session.
    """
    seen: dict[tuple[str, str, dt.datetime], float] = {}
    while True:
        await asyncio.sleep(HURRY_EVERY_S)
        with contextlib.suppress(*DATABASE_AWAY):
            now = time.monotonic()
            for row in await crowd.stack.sql(DEADLINES, crowd.stack.scale, SOON_S):
                if now - seen.setdefault((row["id"], row["name"], row["due"]), now) < HURRY_AFTER_S:
                    continue
                if row["name"] in SOON:
                    await crowd.stack.sql(SOON[row["name"]], crowd.stack.scale, SOON_S, row["id"])
                else:
                    await app.end_now(crowd, [row["id"]], column=row["name"], in_s=SOON_S)


async def _new_session(crowd: ChaosWorld) -> bool:
    """Run a whole session. Return False if another mitra, who was about to accept, took it."""
    try:
        await app.whole_session(crowd)
    except Refused as refused:
        if refused.code != "REQUEST_TAKEN":
            raise AssertionError(str(refused)) from refused
        return False
    return True


async def _works_again(crowd: ChaosWorld, acts: FaultInjector, say: Callable[[str], None]) -> None:
    """Check that a new paid session works soon after the last fault (docs/invariants.md#i12)."""
    began = time.monotonic()
    limit = AFTER_RESTART_S if began - acts.database_died_at < AFTER_RESTART_S else WORKS_AGAIN_S
    crowd.notes.recess = True  # the new customer's request is for the new mitra
    try:
        async with asyncio.timeout(limit + OWN_TIME_S):
            while not await _new_session(crowd):
                continue
    except (TimeoutError, AssertionError) as error:
        crowd.notes.violation(f"no new session works {limit:.0f} s after the last fault: {error!r}")
        return
    finally:
        crowd.notes.recess = False
    say(
        f"a new paid session, from payment to goodbye, was completed {time.monotonic() - began:.1f} s after the last fault"
    )


def _minutes(text: str) -> float:
    minutes = float(text)
    if not minutes > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return minutes


def main() -> int:
    """Read the arguments, run, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock")
    parser.add_argument("--minutes", type=_minutes, default=3.0, help="minutes of faults, at most 10")
    parser.add_argument("--pace", type=float, default=2.0, help="seconds between faults, on average")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="run this load instead of faults")
    parser.add_argument("--client", choices=("python", "typescript"), default="python", help="the app on the phones")
    parser.add_argument("--fair", action="store_true", help="turn every row of tests/faults/chaos/fairness.py on")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stopping the run stops its processes, too
    if args.scenario is not None:
        notes = Notes()
        asyncio.run(SCENARIOS[args.scenario](notes, print))
        return _verdict(args.scenario, notes)
    seed = args.seed if args.seed is not None else time.time_ns() // 1_000_000_000 % 100_000
    plan = Plan(
        seed=seed,
        seconds=60 * min(args.minutes, MOST_MINUTES),
        pace=args.pace,
        library=args.client == "typescript",
        fair=args.fair,
    )
    return _verdict(f"seed {seed}", asyncio.run(chaos(plan)))


def _verdict(name: str, notes: Notes) -> int:
    for violation in notes.violations:
        print("VIOLATION", violation)
    print(f"{name}: {len(notes.violations)} violations")
    return 1 if notes.violations else 0


if __name__ == "__main__":
    sys.exit(main())
