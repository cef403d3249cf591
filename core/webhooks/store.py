"""Writes of webhook_logs (docs/product.md#how-a-payment-is-confirmed).

A call is stored before it is handled, and its result is stored once. A call without a valid token is stored in one
statement. The gateway's answer to a poll is stored only if it reports money that does not fit the request.
"""

import datetime as dt
from typing import Any

import attrs

from core.storage.database import Tx
from core.storage.reads import Reader
from core.storage.records import one

MAX_BODY = 65_536
WEBHOOK, POLL = "webhook", "poll"
ORPHANS_AT_ONCE = 500  # rows in one statement
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

    def fields(self) -> dict[str, Any]:
        """Return what the fallback file stores next to the body."""
        return attrs.asdict(self, filter=lambda a, _: a.name not in ("raw_body", "received_at", "source"))


async def record(tx: Tx, call: Received) -> bool:
    """Store a call before it is handled. Return False if it is stored already."""
    added = await tx.execute(
        """INSERT INTO webhook_logs (id, received_at, source_ip, headers, token_valid, external_id, gateway_invoice_id,
             status, amount, app_tag, raw_body, truncated, replay_of, source)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (id) DO NOTHING""",
        call.id, call.received_at, call.source_ip, call.headers, call.token_valid, call.external_id,
        call.gateway_invoice_id, call.status, call.amount, call.app_tag, call.raw_body, call.truncated, call.replay_of,
        call.source,
    )  # fmt: skip
    return bool(added)


async def record_unauthorized(reader: Reader, call: Received) -> None:
    """Store a call without a valid token, with its result. One statement is enough, because the call has no effects.

    It may be repeated, because the call's id is unique.
    """
    await reader.fetch(
        """INSERT INTO webhook_logs (id, received_at, source_ip, headers, token_valid, external_id, gateway_invoice_id,
             status, amount, app_tag, raw_body, truncated, http_status, processing_result)
           VALUES ($1, $2, $3, $4, false, $5, $6, $7, $8, $9, $10, $11, 401, 'unauthorized') ON CONFLICT (id) DO NOTHING""",
        call.id, call.received_at, call.source_ip, call.headers, call.external_id, call.gateway_invoice_id, call.status,
        call.amount, call.app_tag, call.raw_body, call.truncated,
    )  # fmt: skip


async def get(tx: Tx, log_id: str) -> Received | None:
    """Return a call as it was received; None for an unknown id."""
    return one(
        Received,
        await tx.fetchrow(
            """SELECT id, received_at, source_ip, headers, token_valid, external_id, gateway_invoice_id, status, amount, app_tag,
                 raw_body, truncated, replay_of, source FROM webhook_logs WHERE id = $1""",
            log_id,
        ),
    )


async def claim_call(tx: Tx, log_id: str) -> bool:
    """Clear the result of a call that has none yet or ended in an exception, to handle it again: it had no effects.

    Return False for a call with any other result.
    """
    return bool(
        await tx.execute(
            """UPDATE webhook_logs SET http_status = NULL, processing_result = NULL, processing_error = NULL
               WHERE id = $1 AND (http_status IS NULL OR processing_result = 'error')""",
            log_id,
        )
    )


async def stamp(tx: Tx, log_id: str, *, http_status: int, result: str, error: str | None) -> None:
    """Store a call's result, once.

    A slow handler may replace the result that the sweep gave to its call as an orphan.
    """
    await tx.execute(
        """UPDATE webhook_logs SET http_status = $2, processing_result = $3, processing_error = $4
           WHERE id = $1 AND (http_status IS NULL OR processing_error = $5)""",
        log_id, http_status, result, error, ORPHANED,
    )  # fmt: skip


async def close_abandoned_calls(tx: Tx, *, before: dt.datetime) -> int:
    """Store a result for up to ORPHANS_AT_ONCE calls whose process died before it answered; return how many.

    These calls had no effects, because effects and result are committed together. Rows that a handler has locked are
    left to the next sweep.
    """
    return await tx.execute(
        f"""UPDATE webhook_logs SET http_status = 500, processing_result = 'error', processing_error = $2
            WHERE http_status IS NULL AND id = ANY (ARRAY(
              SELECT id FROM webhook_logs WHERE http_status IS NULL AND received_at <= $1
              ORDER BY received_at LIMIT {ORPHANS_AT_ONCE} FOR UPDATE SKIP LOCKED))""",
        before, ORPHANED,
    )  # fmt: skip
