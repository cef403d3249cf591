"""The clock of sessions, which stands during an outage of the chat if `fair_clock` is on (docs/fairness.md#fair-clock).

An outage is over for the sessions when its credits are committed. Until then their ends in the database are too early,
so no flow may judge them by the service time alone.
"""

import datetime as dt
from collections.abc import Collection

from core.cluster.outages import store as outages
from core.cluster.outages.rules import lost, merged
from core.runtime.container import Runtime
from core.sessions import store as sessions
from core.sessions.store import Session
from core.storage.transaction import Tx


def _scale(runtime: Runtime) -> float | None:
    """Return the scale of service time if the fair clock is on, else None."""
    return runtime.clock.scale if runtime.config.flag("fair_clock") else None


async def stands(runtime: Runtime, tx: Tx) -> bool:
    """Return whether the clock of sessions stands: then a sweep leaves all deadlines of sessions to its next run.

    The transaction's time is fixed before the database answers. An outage that begins later can't make a deadline due
    that this transaction sees.
    """
    scale = _scale(runtime)
    if scale is None:
        return False
    _ = tx.now
    return await outages.stands(tx, scale=scale)


async def now(runtime: Runtime, tx: Tx, session: Session) -> dt.datetime:
    """Return the time by which a session's end is judged: the transaction's, less what is still to be credited.

    Take the session's lock first.
    """
    scale = _scale(runtime)
    if scale is None or session.began_at is None:
        return tx.now
    most = runtime.config.seconds("fair_clock_max_seconds")
    out = await outages.uncredited(tx, scale=scale, now=tx.now)
    return tx.now - lost(out, since=session.began_at, most=most)


async def go_on(runtime: Runtime, session_ids: Collection[str]) -> set[str]:
    """Return those of these sessions that refused a message but go on, because a credit moves or has moved their end.

    Raises Unavailable.
    """
    scale = _scale(runtime)
    if scale is None or not session_ids:
        return set()
    most = runtime.config.seconds("fair_clock_max_seconds")
    at = runtime.now()
    out = await outages.uncredited(runtime.db, scale=scale, now=at)
    longest = sum((ended - began for began, ended in merged(out)), dt.timedelta())
    held = await sessions.held_after(runtime.db, list(session_ids), at - longest)
    return {one.id for one in held if one.expires_at > at - lost(out, since=one.began_at, most=most)}
