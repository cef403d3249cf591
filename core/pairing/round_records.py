"""Write the rounds of searches (`search_rounds`): the mitras that each could ask, and how its invitations ended.

core/pairing/invitations.py calls these functions in the transaction that begins or ends the round. The rows are
statistics: if a statement fails, it is logged and counted, and the search goes on without it.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from core.accounts.mitras.rules import AvailabilityPolicy
from core.base import ids
from core.base.id_ranges import first_id
from core.pairing.eligible import BEGIN_ROUNDS
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

log = logs.get("pairing")
SQL = sql_files.load(__file__)
KEEP = dt.timedelta(days=400)
AT_ONCE = 1_000


async def begin(
    tx: Tx, session_ids: Sequence[str], policy: AvailabilityPolicy, *, target_id: str | None = None
) -> None:
    """Store that these searches are in their present rounds from now on, with the mitras that they can ask.

    `target_id`: the mitra of a targeted search. The caller has locked the sessions, and asks the mitras afterwards.
    """
    args = (tx.now, policy.require_ping, policy.stale_after_seconds, policy.capacity, target_id)
    await _attempt(tx, "begin", BEGIN_ROUNDS, [ids.new_id() for _ in session_ids], session_ids, *args)


async def end(tx: Tx, session_ids: Sequence[str]) -> None:
    """Count the invitations of the present rounds of these searches. None of them may be open.

    A search that began before its rounds were stored has no row, and nothing changes.
    """
    await _attempt(tx, "end", SQL["end"], session_ids, tx.now)


async def _attempt(tx: Tx, step: str, sql: str, *args: Any) -> None:
    error = await tx.attempt(sql, *args)
    if error is not None:
        metrics.SEARCH_ROUNDS_FAILED.labels(step).inc()
        log.warning("storing rounds of searches failed", step=step, error=f"{type(error).__name__}: {error}")


async def _remove(tx: Tx, *, end_id: str) -> int:
    """Delete up to AT_ONCE rounds with ids before `end_id`, the first id that is kept (for KEEP); return how many."""
    return await tx.execute(SQL["purge"], end_id, AT_ONCE)


async def purge(runtime: Runtime) -> None:
    """Sweep: delete the rounds of old searches."""
    await runtime.in_batches(
        lambda tx: _remove(tx, end_id=first_id(runtime.clock.real_time(tx.now - KEEP))), at_once=AT_ONCE
    )
