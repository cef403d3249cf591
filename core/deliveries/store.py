"""Read and write deliveries: one row for each recipient of an event, until it is acknowledged or given up."""

import datetime as dt
from collections.abc import Sequence

from core.events.notices import Notice
from core.storage.database import Database, Tx
from core.storage.reads import Reader

NO_ID = "00000000-0000-0000-0000-000000000000"
AT_ONCE = 5000  # rows per statement
# Ranges use statement_timestamp(), not clock_timestamp(): the latter is volatile and can't bound an index scan.
# ACK locks rows in the order of ids, because two devices may acknowledge the same events.
ACK = """DELETE FROM deliveries WHERE id = ANY (ARRAY(
    SELECT d.id FROM unnest($1::uuid[], $2::uuid[]) AS a(id, recipient_id) JOIN deliveries d USING (id, recipient_id)
    ORDER BY d.id FOR UPDATE OF d)) RETURNING id::text"""
WAITING = """SELECT id::text AS event_id, recipient_id::text, recipient_type, event, session_id::text, payload, created_at FROM deliveries
  WHERE created_at BETWEEN $1 AND statement_timestamp() - make_interval(secs => $2) AND (created_at, id) > ($3, $4::uuid)
  ORDER BY created_at, id LIMIT 5000"""
UNHEARD = """SELECT d.* FROM unnest($1::uuid[]) AS r(id) CROSS JOIN LATERAL (
    SELECT id::text AS event_id, recipient_id::text, recipient_type, event, session_id::text, payload FROM deliveries
    WHERE recipient_id = r.id AND created_at > statement_timestamp() - make_interval(secs => $2)
    ORDER BY created_at DESC, id DESC LIMIT 200) d"""
PURGE = """DELETE FROM deliveries WHERE id = ANY (ARRAY(SELECT id FROM deliveries
  WHERE created_at < statement_timestamp() - make_interval(secs => $1) ORDER BY created_at LIMIT 5000))"""


async def add(tx: Tx, notices: list[Notice], *, as_sent: list[Notice] | None = None) -> None:
    """Store notices in the transaction of the change that they report, and send them after its commit.

    `as_sent` are the same notices with the texts that are sent but not stored; None: the notices have none.
    """
    if not notices:
        return
    await tx.execute(
        """INSERT INTO deliveries (id, recipient_id, recipient_type, event, session_id, payload, created_at)
           SELECT u.*, clock_timestamp() FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::text[]) u""",
        [n.event_id for n in notices], [n.recipient_id for n in notices], [n.recipient_type for n in notices],
        [n.event for n in notices], [n.session_id for n in notices], [n.payload for n in notices],
    )  # fmt: skip
    tx.outgoing.notices.extend(notices if as_sent is None else as_sent)


async def forget(tx: Tx, recipient_id: str, event: str) -> None:
    """Delete a recipient's pending deliveries of an event, because a newer one replaces them."""
    await tx.execute("DELETE FROM deliveries WHERE recipient_id = $1 AND event = $2", recipient_id, event)


async def acknowledge(db: Database, pairs: list[tuple[str, str]]) -> set[str]:
    """Delete deliveries, given as (event id, recipient id); return the event ids of those that existed."""
    rows = await db.fetch(ACK, [event_id for event_id, _ in pairs], [recipient_id for _, recipient_id in pairs])
    return {row["id"] for row in rows}


async def waiting(reader: Reader, *, since: dt.datetime, older_than_s: float) -> list[Notice]:
    """Return the deliveries created since `since` (real time) and unacknowledged for `older_than_s` real seconds."""
    found: list[Notice] = []
    place = (since, NO_ID)
    while True:
        rows = [dict(row) for row in await reader.fetch(WAITING, since, older_than_s, *place)]
        if rows:
            place = (rows[-1]["created_at"], rows[-1]["event_id"])
        found += [Notice(**{name: row[name] for name in Notice.__struct_fields__}) for row in rows]
        if len(rows) < AT_ONCE:
            return found


async def unacknowledged(reader: Reader, recipient_ids: Sequence[str], *, within_s: float) -> dict[str, list[Notice]]:
    """Return recipient -> their unacknowledged deliveries of the last `within_s` real seconds, oldest first.

    Each recipient gets the newest 200 at most.
    """
    rows = await reader.fetch(UNHEARD, recipient_ids, within_s)
    found: dict[str, list[Notice]] = {}
    for row in reversed(rows):
        found.setdefault(row["recipient_id"], []).append(Notice(**dict(row)))
    return found


async def claim_unacknowledged(tx: Tx, *, older_than_s: float, limit: int) -> list[Notice]:
    """Claim up to `limit` deliveries that are unacknowledged for `older_than_s` real seconds, each delivery once.

    The caller sends a push for them to each of the recipient's devices.
    """
    rows = await tx.fetch(
        """UPDATE deliveries SET pushed_real_at = clock_timestamp() WHERE id = ANY (ARRAY(SELECT id FROM deliveries
             WHERE pushed_real_at IS NULL AND created_at < statement_timestamp() - make_interval(secs => $1)
             ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED))
           RETURNING id::text AS event_id, recipient_id::text, recipient_type, event, session_id::text, payload""",
        older_than_s, limit,
    )  # fmt: skip
    return [Notice(**dict(row)) for row in rows]


async def purge(tx: Tx, *, older_than_s: float) -> int:
    """Delete up to AT_ONCE old deliveries and return how many: a client that comes back later gets a snapshot."""
    return await tx.execute(PURGE, older_than_s)
