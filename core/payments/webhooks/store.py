"""Writes of webhook_logs (docs/product.md#how-a-payment-is-confirmed).

A call is stored before its token is compared, and its result is stored once. The gateway's answer to a poll is stored
only if it reports money that does not fit the request.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs

from core.payments.webhooks.tables import WebhookLog as Calls
from core.storage.records import many
from core.storage.statements import columns_of, insert, names_of, p, statement
from core.storage.transaction import Reader, Tx

MAX_BODY = 65_536
WEBHOOK, POLL = "webhook", "poll"
ORPHANS_AT_ONCE = 500  # rows in one statement
REMOVED_AT_ONCE = 1_000  # rows in one statement
ORPHANED_FOR = dt.timedelta(days=30)  # the frequent look for orphans reads only the calls of this time
ORPHANED = "the process ended before it answered"


@attrs.frozen(kw_only=True)
class Received:
    """A call as it was received. `external_id` to `app_tag` are as the body has them, unchecked."""

    id: str
    received_at: dt.datetime
    source_ip: str
    headers: dict[str, str]
    token_valid: bool
    external_id: str | None
    gateway_invoice_id: str | None
    status: str | None
    amount: str | None
    app_tag: str | None
    raw_body: bytes
    truncated: bool
    replay_of: str | None = None
    source: str = WEBHOOK
    # The length and SHA-256 (hex) of a body that is cut because its call came without a valid token. The hash is that
    # of what was read: at most MAX_BODY + 1 bytes.
    bytes: int | None = None
    body_sha256: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return what the fallback file stores next to the body."""
        return attrs.asdict(self, filter=lambda a, _: a.name not in ("raw_body", "received_at", "source"))


@attrs.frozen(kw_only=True)
class Abandoned:
    """A call that its process has left without a result, and the ids that its body names, unchecked."""

    id: str
    external_id: str | None
    gateway_invoice_id: str | None


# Stores a result for calls before $1 that have none and are not locked; $2 is the text of the error, unless one is
# noted, and $3 the bound of their ids. The join finds each call in the partition of its month.
CLOSE_ABANDONED_CALLS = f"""
  WITH abandoned AS MATERIALIZED (
    SELECT id
    FROM webhook_logs
    WHERE http_status IS NULL AND received_at <= $1 AND id >= $3
    ORDER BY received_at
    LIMIT {ORPHANS_AT_ONCE}
    FOR UPDATE SKIP LOCKED
  )
  UPDATE webhook_logs AS w
  SET http_status = 500, processing_result = 'error', processing_error = coalesce(w.processing_error, $2)
  FROM abandoned AS a
  WHERE w.id = a.id AND w.id >= $3 AND w.http_status IS NULL
  RETURNING w.id::text, w.external_id, w.gateway_invoice_id
"""
# Deletes calls without a valid token from before $1, whose ids are below $2. One without a result may have been
# genuine, so it stays if it names a UUID, as calls about requests do.
REMOVE_UNPROVEN = f"""
  WITH old AS MATERIALIZED (
    SELECT id
    FROM webhook_logs
    WHERE
      NOT token_valid
      AND (
        processing_result IN ('unauthorized', 'flood')
        OR processing_result = 'error' AND pg_input_is_valid(external_id, 'uuid') IS NOT TRUE
      )
      AND received_at < $1
      AND id < $2
    ORDER BY received_at
    LIMIT {REMOVED_AT_ONCE}
    FOR UPDATE SKIP LOCKED
  )
  DELETE FROM webhook_logs AS w
  USING old AS o
  WHERE w.id = o.id AND w.id < $2
"""
RECORD = statement(insert(Calls, names_of(Received)).on_conflict(Calls.id, "DO NOTHING"))
GET = statement(Calls.select(*columns_of(Calls, Received)).where(Calls.id == p.id), Received)
FORGET_LATE = statement(Calls.delete().where(Calls.id == p.id, Calls.http_status.is_null()))
POLLED = f"SELECT id::text FROM webhook_logs WHERE gateway_invoice_id = ANY($1) AND source = '{POLL}'"
CLAIM = statement(
    Calls.update(http_status=None, processing_result=None, processing_error=None).where(
        Calls.id == p.id, Calls.http_status.is_null() | (Calls.processing_result == "error")
    )
)
NOTE_ERROR = statement(
    Calls.update(processing_error=p.error, token_valid=p.token_valid).where(
        Calls.id == p.id, Calls.http_status.is_null()
    )
)
STAMP = statement(
    Calls.update(
        http_status=p.http_status, processing_result=p.result, processing_error=p.error, token_valid=p.token_valid
    ).where(Calls.id == p.id, Calls.http_status.is_null() | (Calls.processing_error == ORPHANED))
)


async def record(tx: Tx, call: Received) -> bool:
    """Store a call before it is handled. Return False if it is stored already."""
    return bool(await RECORD.execute(tx, **attrs.asdict(call)))


async def record_first(reader: Reader, call: Received) -> None:
    """Store a call before its token is compared. It may be repeated, because the call's id is unique."""
    await RECORD.all(reader, **attrs.asdict(call))


async def forget_late(reader: Reader, call_id: str) -> None:
    """Delete a call without a result that was stored too late: its process went on without it."""
    await FORGET_LATE.all(reader, id=call_id)


async def get(tx: Tx, log_id: str) -> Received | None:
    """Return a call as it was received; None for an unknown id."""
    return await GET.first(tx, id=log_id)


async def polled(reader: Reader, *, invoice_ids: Sequence[str]) -> list[str]:
    """Return the ids of the rows with money of these invoices that polls have found."""
    return [row["id"] for row in await reader.fetch(POLLED, invoice_ids)]


async def claim_call(tx: Tx, log_id: str) -> bool:
    """Clear the result of a call that has none yet or ended in an exception, to handle it again: it had no effects.

    Return False for a call with any other result.
    """
    return bool(await CLAIM.execute(tx, id=log_id))


async def stamp(
    tx: Tx, log_id: str, *, http_status: int, result: str, error: str | None, token_valid: bool = True
) -> None:
    """Store a call's result, once, and whether its token was valid: the row is older than that knowledge.

    A slow handler may replace the result that the sweep gave to its call as an orphan.
    """
    await STAMP.execute(tx, id=log_id, http_status=http_status, result=result, error=error, token_valid=token_valid)


async def note_error(tx: Tx, log_id: str, error: str, *, token_valid: bool) -> None:
    """Store why the handling of a call ended in an exception, and whether its token was valid, without a result."""
    await NOTE_ERROR.execute(tx, id=log_id, error=error, token_valid=token_valid)


async def close_abandoned_calls(tx: Tx, *, before: dt.datetime, begin_id: str) -> list[Abandoned]:
    """Store a result for up to ORPHANS_AT_ONCE calls that their processes have left without one; return them.

    Only calls with ids from the bound `begin_id` on are looked at. They had no effects, because effects and result are
    committed together. Rows that a handler has locked are left to the next sweep.
    """
    return many(Abandoned, await tx.fetch(CLOSE_ABANDONED_CALLS, before, ORPHANED, begin_id))


async def remove_unproven(tx: Tx, *, before: dt.datetime, end_id: str) -> int:
    """Delete up to REMOVED_AT_ONCE calls without a valid token from before `before`; return how many.

    Their ids are below the bound `end_id`.
    """
    return await tx.execute(REMOVE_UNPROVEN, before, end_id)
