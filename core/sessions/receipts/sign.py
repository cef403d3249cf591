"""Sign the receipt of a completed session (docs/fairness.md#receipt)."""

import datetime as dt

from core.base.clock import as_text
from core.base.field_types import Id, SessionId
from core.cluster.outages import rules as outage_rules
from core.cluster.outages import store as outages
from core.cluster.outages.rules import OutageKind, ProcessKind
from core.sessions.extensions import store as extensions
from core.sessions.receipts import rules
from core.sessions.receipts import store as receipts
from core.sessions.receipts.rules import Interval, Prolonged, Receipt
from core.sessions.receipts.signing import ReceiptKeys
from core.sessions.receipts.store import PaidTime
from core.storage.transaction import Tx

MINUTE_S = 60
CHAT_OUTAGES = (OutageKind.DATABASE, OutageKind.REALTIME)


async def sign(tx: Tx, session_id: str, *, digest: str | None, keys: ReceiptKeys, scale: float) -> None:
    """Sign a session's receipt, unless that was done. `digest` is the one of its whole chat.

    A completed session never changes, but for its texts, so the caller needs no lock of it.
    """
    claimed = await receipts.claim(tx, session_id)
    paid = await receipts.paid_time(tx, session_id)
    if claimed is None or paid is None:
        return
    times = await _talking_times(tx, session_id, paid, until=claimed.talked_until)
    lost = await _outages(tx, (paid.paired_at, claimed.talked_until), scale=scale)
    receipt = Receipt(
        session_id=SessionId(Id(session_id)),
        seconds_paid=(paid.duration_minutes + paid.extended_minutes) * MINUTE_S,
        seconds_both_could_talk=rules.seconds_without(times, lost),
        seconds_credited=sum(milliseconds for _, milliseconds in paid.credits) // 1000,
        messages=paid.last_seq,
        digest=digest,
        completed_at=as_text(claimed.completed_at),
    )
    body = rules.canonical(receipt)
    key_id, signature = keys.sign(body)
    await receipts.sign(tx, session_id, body=body.decode(), key_id=key_id, signature=signature)


async def _talking_times(tx: Tx, session_id: str, paid: PaidTime, *, until: dt.datetime) -> list[Interval]:
    prolonged = [
        Prolonged(at=at, by=dt.timedelta(minutes=minutes), is_extension=True)
        for at, minutes in await extensions.agreed(tx, session_id)
    ]
    prolonged += [
        Prolonged(at=at, by=dt.timedelta(milliseconds=milliseconds), is_extension=False)
        for at, milliseconds in paid.credits
    ]
    return rules.talking_times(
        paired_at=paid.paired_at, minutes=paid.duration_minutes, prolonged=prolonged, until=until
    )


async def _outages(tx: Tx, whole: Interval, *, scale: float) -> list[Interval]:
    """Return the outages of the chat in an interval: the recorded ones, and one that is not over."""
    found = await outages.overlaps(tx, CHAT_OUTAGES, whole)
    since = await outages.missing_since(tx, ProcessKind.REALTIME, scale=scale)
    if since is not None and since < whole[1]:
        found.append((max(since, whole[0]), whole[1]))
    return outage_rules.merged(found)
