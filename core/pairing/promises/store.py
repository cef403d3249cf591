"""Measure waits, and keep estimates and promises."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.pairing.promises.rules import DAYS, JUDGED, Estimate, Interval, JudgedPromises, Promise, Waits
from core.pairing.promises.tables import WaitEstimate, WaitPromise
from core.storage import sql_files
from core.storage.records import one
from core.storage.statements import columns_of, insert, p, statement
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
KEEP_FOR = dt.timedelta(days=400)
AT_ONCE = 1_000
ESTIMATE = columns_of(WaitEstimate, Estimate)
FOR_HOUR = statement(WaitEstimate.select(*ESTIMATE).where(WaitEstimate.hour == p.hour), Estimate)
NEWEST = statement(
    WaitEstimate.select(*ESTIMATE).order_by(WaitEstimate.estimated_at, ascending=False).limit(1), Estimate
)
KEEP_PROMISE = statement(insert(WaitPromise, "payment_request_id made_at p50_seconds p90_seconds is_shown"))
OUTCOMES = SQL["outcomes"]  # of the promises made from $2 to before $3, as they are at $1
JUDGE = f"WITH outcomes AS (\n{OUTCOMES}\n)\n\n{SQL['judge']}"


async def measure(reader: Reader, intervals: Sequence[Interval]) -> Waits:
    """Return the waits of the searches that began in these intervals."""
    begins, ends = [begin for begin, _ in intervals], [end for _, end in intervals]
    found = one(Waits, await reader.fetchrow(SQL["measure"], begins, ends))
    assert found is not None
    return found


async def judge(reader: Reader, *, now: dt.datetime) -> JudgedPromises:
    """Return the verdict on the newest promises of the last DAYS whose p90 is over."""
    found = one(JudgedPromises, await reader.fetchrow(JUDGE, now, now - DAYS, now, JUDGED))
    assert found is not None
    return found


async def keep_estimate(tx: Tx, estimate: Estimate) -> None:
    """Store an estimate in place of an older one for the same hour."""
    await tx.execute(SQL["keep_estimate"], *attrs.astuple(estimate))


async def estimate_for(reader: Reader, hour: int) -> Estimate | None:
    """Return the estimate for an hour of the day; None before the first one."""
    return await FOR_HOUR.first(reader, hour=hour)


async def newest_estimate(reader: Reader) -> Estimate | None:
    """Return the estimate that was made last; None before the first one."""
    return await NEWEST.first(reader)


async def keep(tx: Tx, payment_request_id: str, promise: Promise) -> None:
    """Store what the customer of a new payment request is promised."""
    await KEEP_PROMISE.execute(tx, payment_request_id=payment_request_id, made_at=tx.now, **attrs.asdict(promise))


async def purge(tx: Tx, *, end_id: str) -> int:
    """Delete up to AT_ONCE promises with ids before `end_id`; return how many.

    `end_id` is the first id that is kept (for KEEP_FOR).
    """
    return await tx.execute(SQL["purge"], end_id, AT_ONCE)
