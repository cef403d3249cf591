"""Give sessions paid time back (docs/fairness.md#fair-clock)."""

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from core.events.signals import DeadlineSet
from core.sessions import announce, transitions
from core.sessions.clock import store
from core.sessions.clock.store import Credit
from core.sessions.events import SessionClockAdjusted
from core.sessions.rules import CreditReason
from core.storage.transaction import Tx
from core.telemetry import metrics


async def give(
    tx: Tx,
    session_ids: Sequence[str],
    *,
    reason: CreditReason,
    began_at: dt.datetime,
    ended_at: dt.datetime,
    most: dt.timedelta | None = None,
    outage_id: str | None = None,
) -> list[Credit]:
    """Give sessions back what they lost from `began_at` to `ended_at`, at most `most` if given, and report it.

    The step locks the sessions, moves the end of each that was active at `began_at` or later, and arms its warning
    again. An expired one whose new end is not over is active again. Time that another credit covers is not given twice,
    and a repeat of the call gives nothing. `outage_id` is None for a mitra's absence only.
    """
    given = await store.add(
        tx, session_ids, reason=reason, began_at=began_at, ended_at=ended_at, most=most, outage_id=outage_id
    )
    if not given:
        return []
    await transitions.revive(tx, [credit.session_id for credit in given])
    by_length: defaultdict[int, list[str]] = defaultdict(list)
    for credit in given:
        by_length[round(credit.milliseconds / 1000)].append(credit.session_id)
        tx.count(metrics.CREDITS.labels(reason))
        tx.count(metrics.CREDITED_SECONDS.labels(reason), credit.milliseconds / 1000)
    for seconds, those in by_length.items():
        await announce.about_sessions(tx, those, partial(SessionClockAdjusted, added_seconds=seconds, reason=reason))
    tx.emit(DeadlineSet(at=tx.now))
    return given
