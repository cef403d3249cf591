"""Read, lock and write OTP requests.

A customer's code is sent before the response, a mitra's after it, in the background. Until a mitra's code is sent,
`send_due_real_at` is the real time at which another process may send it, in case the process that holds it has died.
"""

import datetime as dt

import attrs

from core.logins.otp import Asked
from core.storage import locks
from core.storage.database import Database, Tx
from core.storage.locks import AdvisoryLock
from core.storage.records import many, one

COLUMNS = """id, phone, user_type, code_hash, provider_reference, attempts, used_at, expires_at,
  provider_reference IS NULL AND CASE user_type WHEN 'customer' THEN NOT delivery_failed
    ELSE send_due_real_at IS NOT NULL AND send_attempts > 0 END AS may_be_sent"""
PENDING = "id, phone, channel, expires_at, send_attempts"
IN_FLIGHT_S = (
    30.0  # real seconds; a customer's code that waits longer for the provider's answer belongs to a dead process
)
GRACE_S = 3.0  # real seconds for the process that took the request to send its code first
HOLD_S = 20.0  # real seconds of a claim: longer than both tries at the provider can take
RETRY_S = 5.0  # real seconds until a retry after a failure, doubled each time
# Codes that count against the budget; the same condition as the WHERE of the index otp_requests_budget.
SPENT = "user_type = 'customer' AND NOT delivery_failed"


@attrs.frozen(kw_only=True)
class OtpRequest:
    """The columns of otp_requests that the rules need.

    `may_be_sent`: the provider may have the code, but its answer is not stored: it is awaited, or the process has died.
    """

    id: str
    phone: str
    user_type: str
    code_hash: str | None
    provider_reference: str | None
    attempts: int
    used_at: dt.datetime | None
    expires_at: dt.datetime
    may_be_sent: bool


@attrs.frozen(kw_only=True)
class Pending:
    """A mitra's request that this process has claimed, to send its code now."""

    id: str
    phone: str
    channel: str
    expires_at: dt.datetime
    send_attempts: int


async def lock_limits(tx: Tx, *, user_type: str, phone: str, ip_address: str) -> None:
    """Lock a phone and an address until the commit, so that their limits are checked for one request at a time."""
    await locks.hold(tx, AdvisoryLock.CODES_OF_PHONE, f"{user_type} {phone}")
    await locks.hold(tx, AdvisoryLock.CODES_OF_ADDRESS, ip_address)


async def asked(
    tx: Tx, *, user_type: str, phone: str, ip_address: str, since: dt.datetime, in_flight_since: dt.datetime
) -> Asked:
    """Read the requests since `since` that count against the limits of a phone and kind of user, and of an address.

    A customer's code without the provider's answer counts as a refused number if it is newer than `in_flight_since`.
    """
    by_phone = await tx.fetch(
        """SELECT created_at FROM otp_requests WHERE phone = $1 AND user_type = $2 AND created_at > $3
           AND NOT delivery_failed ORDER BY created_at""",
        phone, user_type, since,
    )  # fmt: skip
    by_ip = await tx.fetch(
        """SELECT created_at, delivery_failed, number_refused
             OR (user_type = 'customer' AND provider_reference IS NULL AND NOT delivery_failed AND created_at > $3) AS may_be_refused
           FROM otp_requests WHERE ip_address = $1 AND created_at > $2 ORDER BY created_at""",
        ip_address, since, in_flight_since,
    )  # fmt: skip
    return Asked(
        by_phone=tuple(row["created_at"] for row in by_phone),
        by_ip=tuple(row["created_at"] for row in by_ip if not row["delivery_failed"]),
        refused_by_ip=tuple(row["created_at"] for row in by_ip if row["may_be_refused"]),
    )


async def budget_full_since(tx: Tx, *, limit: int, known_phone: bool, since: dt.datetime) -> dt.datetime | None:
    """Return the time of the code that must be an hour old before another one may be sent; None if one may be sent now.

    Phones without an account have half of the budget. Locks the budget until the commit, so that it is checked for one
    request at a time.
    """
    share = limit if known_phone else limit // 2
    if share == 0:
        return tx.now
    await locks.hold(tx, AdvisoryLock.CODE_BUDGET)
    return await tx.fetchval(
        f"""SELECT max(created_at) FROM (
             (SELECT created_at FROM otp_requests WHERE {SPENT} AND created_at > $1
              ORDER BY created_at DESC OFFSET $2 LIMIT 1)
             UNION ALL
             (SELECT created_at FROM otp_requests WHERE {SPENT} AND created_at > $1 AND NOT known_phone AND NOT $4
              ORDER BY created_at DESC OFFSET $3 LIMIT 1)) AS full_since""",
        since, limit - 1, share - 1, known_phone,
    )  # fmt: skip


async def create(
    tx: Tx, *, otp_request_id: str, phone: str, ip_address: str, user_type: str, channel: str,
    code_hash: str | None, known_phone: bool, send_later: bool, expires_at: dt.datetime,
) -> None:  # fmt: skip
    """Insert a request for a code. `send_later`: the code is made and sent after the commit."""
    await tx.execute(
        """INSERT INTO otp_requests (id, phone, ip_address, user_type, channel, code_hash, known_phone, send_due_real_at,
             created_at, expires_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $8 THEN clock_timestamp() + make_interval(secs => $9) END, $10, $11)""",
        otp_request_id, phone, ip_address, user_type, channel, code_hash, known_phone, send_later, GRACE_S, tx.now, expires_at,
    )  # fmt: skip


async def claim(tx: Tx, otp_request_id: str) -> Pending | None:
    """Claim a mitra's request that no process has claimed yet; return None if one has."""
    row = await tx.fetchrow(
        f"""UPDATE otp_requests SET send_attempts = 1, send_due_real_at = clock_timestamp() + make_interval(secs => $2)
            WHERE id = $1 AND send_due_real_at IS NOT NULL AND send_attempts = 0 RETURNING {PENDING}""",
        otp_request_id, HOLD_S,
    )  # fmt: skip
    return one(Pending, row)


async def claim_due(db: Database, *, limit: int) -> list[Pending]:
    """Claim mitras' requests whose process has died or was too slow, or whose retry is due."""
    rows = await db.fetch(
        f"""UPDATE otp_requests SET send_attempts = send_attempts + 1,
              send_due_real_at = clock_timestamp() + make_interval(secs => $2)
            WHERE id = ANY (ARRAY(SELECT id FROM otp_requests WHERE send_due_real_at <= statement_timestamp()
              ORDER BY send_due_real_at LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING {PENDING}""",
        limit, HOLD_S,
    )  # fmt: skip
    return many(Pending, rows)


async def keep_hash(tx: Tx, otp_request_id: str, code_hash: str) -> None:
    """Store the hash of the code that is about to be sent."""
    await tx.execute("UPDATE otp_requests SET code_hash = $2 WHERE id = $1", otp_request_id, code_hash)


async def sending_ended(tx: Tx, otp_request_id: str, *, reference: str | None) -> None:
    """Record that a mitra's request needs no more sending; `reference` is the provider's, None if nothing was sent."""
    await tx.execute(
        "UPDATE otp_requests SET send_due_real_at = NULL, provider_reference = $2 WHERE id = $1",
        otp_request_id, reference,
    )  # fmt: skip


async def send_again(tx: Tx, otp_request_id: str, *, after_s: float) -> None:
    """Schedule a retry for a mitra's code in `after_s` real seconds, unless the code was used."""
    await tx.execute(
        """UPDATE otp_requests SET send_due_real_at = clock_timestamp() + make_interval(secs => $2)
           WHERE id = $1 AND used_at IS NULL""",
        otp_request_id, after_s,
    )  # fmt: skip


async def delivered(tx: Tx, otp_request_id: str, *, reference: str | None, number_refused: bool) -> None:
    """Store the provider's reference of a customer's code; None: it was not delivered and does not count as a code.

    `number_refused`: the provider said that it sends nothing to this number.
    """
    await tx.execute(
        "UPDATE otp_requests SET provider_reference = $2, delivery_failed = $3, number_refused = $4 WHERE id = $1",
        otp_request_id, reference, reference is None, number_refused,
    )  # fmt: skip


async def lock(tx: Tx, otp_request_id: str) -> OtpRequest | None:
    """Lock and read a request for a code."""
    return one(
        OtpRequest, await tx.fetchrow(f"SELECT {COLUMNS} FROM otp_requests WHERE id = $1 FOR UPDATE", otp_request_id)
    )


async def count_attempt(tx: Tx, otp_request_id: str, *, tries: int = 1) -> None:
    """Add `tries` to the attempts at a code; -1 gives back a try that was not checked."""
    await tx.execute("UPDATE otp_requests SET attempts = attempts + $2 WHERE id = $1", otp_request_id, tries)


async def use(tx: Tx, otp_request_id: str) -> None:
    """Mark a code as used; it needs no more sending."""
    await tx.execute(
        "UPDATE otp_requests SET used_at = $2, send_due_real_at = NULL WHERE id = $1 AND used_at IS NULL",
        otp_request_id, tx.now,
    )  # fmt: skip
