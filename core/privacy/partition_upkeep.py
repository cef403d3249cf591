"""Make the partitions of the coming months ahead of time (docs/operating.md#partitions-by-month)."""

from core.base.errors import Unavailable
from core.runtime.container import Runtime
from core.storage import partitions
from core.telemetry import logs, metrics

log = logs.get("partitions")


async def make_ahead(runtime: Runtime) -> list[str]:
    """Make the missing partitions of the present month and the AHEAD months after it; return their names.

    Each has a separate transaction, which locks writers out for less than two seconds. Raises Unavailable if another
    transaction holds a lock for longer, or the database does not answer; partitions that were made before stay.
    """
    now = runtime.clock.real_now()  # as ids
    made: list[str] = []
    for table, month in partitions.missing(await partitions.partitions(runtime.db), now):
        async with runtime.transaction() as tx:
            if await partitions.make(tx, table, month):
                made.append(partitions.name_of(table, month))
    return made


async def keep_ahead(runtime: Runtime) -> None:
    """Sweep: make partitions ahead, and report how many months are left.

    When a lock is not available, the next sweep tries again: a month is made long before it is needed, and more
    attempts would only hold up writers.
    """
    try:
        if made := await make_ahead(runtime):
            log.info("made partitions", names=made)
    except Unavailable:
        log.warning("making a partition waits for the next sweep, because a table is locked")
    left = partitions.months_ahead(await partitions.partitions(runtime.db), runtime.clock.real_now())
    for table, months in left.items():
        metrics.PARTITION_MONTHS_AHEAD.labels(table).set(months)
