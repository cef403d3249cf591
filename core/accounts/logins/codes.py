"""Read, lock and write OTP requests.

A customer's code is sent before the response, a mitra's after it, in the background. Until a mitra's code is sent,
`send_due_real_at` is the real time at which another process may send it, in case the process that holds it has died.
"""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.accounts.logins.otp import CodesAsked
from core.accounts.logins.tables import OtpRequest as OtpRequests
from core.base.actor import UserType
from core.storage import locks, sql_files
from core.storage.database import Database
from core.storage.locks import AdvisoryLock
from core.storage.records import many, one
from core.storage.statements import p, statement
from core.storage.transaction import Tx

# Real seconds; a customer's code that waits longer for the provider's answer belongs to a dead process.
IN_FLIGHT_S = 30.0
GRACE_S = 3.0  # real seconds for the process that took the request to send its code first
HOLD_S = 20.0  # real seconds of a claim: longer than both tries at the provider can take
FIXED = "test number"  # the reference of a request whose code is fixed, so that no provider has it
RETRY_S = 5.0  # real seconds until a retry after a failure, doubled each time


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
    created_at: dt.datetime
    expires_at: dt.datetime
    may_be_sent: bool


@attrs.frozen(kw_only=True)
class Locked:
    """A locked request, and all requests of its phone and kind of user whose codes are alive.

    `living` includes the named one if it is alive, and no other whose sending failed.
    """

    named: OtpRequest
    living: tuple[OtpRequest, ...]


@attrs.frozen(kw_only=True)
class PendingCode:
    """A mitra's request that this process has claimed, to send its code now."""

    id: str
    phone: str
    channel: str
    expires_at: dt.datetime
    send_attempts: int


@attrs.frozen
class Stranger:
    """A caller without an account or a token, by their network: it may use 1/`part` of the strangers' budget."""

    network: str
    part: int


SQL = sql_files.load(__file__)
KEEP_HASH = statement(OtpRequests.update(code_hash=p.code_hash).where(OtpRequests.id == p.id))
SENDING_ENDED = statement(
    OtpRequests.update(send_due_real_at=None, provider_reference=p.reference).where(OtpRequests.id == p.id)
)
DELIVERED = statement(
    OtpRequests.update(
        provider_reference=p.reference, delivery_failed=p.delivery_failed, number_refused=p.number_refused
    ).where(OtpRequests.id == p.id)
)


async def hold_phone(tx: Tx, phone: str) -> None:
    """Lock the codes of a phone until the commit, so that they are requested, checked and erased one at a time."""
    await locks.hold(tx, AdvisoryLock.CODES_OF_PHONE, phone)


async def lock_limits(tx: Tx, *, phone: str, ip_address: str) -> None:
    """Lock a phone and an address until the commit, so that their limits are checked for one request at a time."""
    await hold_phone(tx, phone)
    await locks.hold(tx, AdvisoryLock.CODES_OF_ADDRESS, ip_address)


async def asked(
    tx: Tx,
    *,
    phones: Sequence[str],
    ip_address: str,
    since: dt.datetime,
    in_flight_since: dt.datetime,
) -> CodesAsked:
    """Read the requests since `since` that count against the limits of a phone and of an address.

    `phones` are the phone, and what replaces it in requests of an erased user.

    A customer's code without the provider's answer counts as a refused number if it is newer than `in_flight_since`.
    """
    by_phone = await tx.fetch(SQL["asked_by_phone"], phones, since)
    by_ip = await tx.fetch(SQL["asked_by_address"], ip_address, since, in_flight_since)
    return CodesAsked(
        by_phone=tuple(row["created_at"] for row in by_phone),
        by_ip=tuple(row["created_at"] for row in by_ip if not row["delivery_failed"]),
        refused_by_ip=tuple(row["created_at"] for row in by_ip if row["may_be_refused"]),
    )


async def budget_full(
    tx: Tx, *, limit: int, stranger: Stranger, since: dt.datetime
) -> tuple[dt.datetime | None, dt.datetime | None]:
    """Return the times of the codes that must be an hour old before another one may be sent; None for a free budget.

    The first is the budget's, the second that of the stranger's network. Strangers have half of the budget together.
    Locks the budget until the commit, so that it is checked for one request at a time.
    """
    strangers = limit // 2
    if strangers == 0:
        return tx.now, None
    await locks.hold(tx, AdvisoryLock.CODE_BUDGET)
    share = max(1, strangers // stranger.part)
    row = await tx.fetchrow(
        SQL["budget_full"], since, limit - 1, strangers - 1, strangers // 2, share - 1, stranger.network
    )
    assert row is not None
    return row["full_since"], row["share_full_since"]


async def create(
    tx: Tx,
    *,
    otp_request_id: str,
    phone: str,
    ip_address: str,
    user_type: str,
    channel: str,
    code_hash: str | None,
    stranger: Stranger | None,
    send_later: bool,
    expires_at: dt.datetime,
) -> None:
    """Insert a request for a code. `send_later`: the code is made and sent after the commit.

    `stranger` is None if the caller is known, or if the request is not in the budget.
    """
    await tx.execute(
        SQL["create"],
        otp_request_id,
        phone,
        ip_address,
        user_type,
        channel,
        code_hash,
        stranger is None and user_type == UserType.CUSTOMER,
        None if stranger is None else stranger.network,
        send_later,
        GRACE_S,
        tx.now,
        expires_at,
    )


async def claim(tx: Tx, otp_request_id: str) -> PendingCode | None:
    """Claim a mitra's request that no process has claimed yet; return None if one has."""
    return one(PendingCode, await tx.fetchrow(SQL["claim"], otp_request_id, HOLD_S))


async def claim_due(db: Database, *, limit: int) -> list[PendingCode]:
    """Claim mitras' requests whose process has died or was too slow, or whose retry is due."""
    return many(PendingCode, await db.fetch(SQL["claim_due"], limit, HOLD_S))


async def keep_hash(tx: Tx, otp_request_id: str, code_hash: str) -> None:
    """Store the hash of the code that is about to be sent."""
    await KEEP_HASH.execute(tx, id=otp_request_id, code_hash=code_hash)


async def sending_ended(tx: Tx, otp_request_id: str, *, reference: str | None) -> None:
    """Record that a mitra's request needs no more sending; `reference` is the provider's, None if nothing was sent."""
    await SENDING_ENDED.execute(tx, id=otp_request_id, reference=reference)


async def send_again(tx: Tx, otp_request_id: str, *, after_s: float) -> None:
    """Schedule a retry for a mitra's code in `after_s` real seconds, unless the code was used."""
    await tx.execute(SQL["send_again"], otp_request_id, after_s)


async def delivered(tx: Tx, otp_request_id: str, *, reference: str | None, number_refused: bool) -> None:
    """Store the provider's reference of a customer's code; None: it was not delivered and does not count as a code.

    `number_refused`: the provider said that it sends nothing to this number.
    """
    await DELIVERED.execute(
        tx, id=otp_request_id, reference=reference, delivery_failed=reference is None, number_refused=number_refused
    )


async def lock(tx: Tx, otp_request_id: str, *, user_type: str) -> Locked | None:
    """Lock a request and the living ones of its phone and kind of user; None if a user of this kind has no such one."""
    row = await tx.fetchrow(SQL["phone_of"], otp_request_id)
    if row is None or row["user_type"] != user_type:
        return None
    phone = row["phone"]
    await hold_phone(tx, phone)
    rows = many(OtpRequest, await tx.fetch(SQL["lock"], otp_request_id, phone, user_type, tx.now))
    named = next((row for row in rows if row.id == otp_request_id), None)
    if named is None:  # deleted during the wait
        return None
    return Locked(named=named, living=tuple(row for row in rows if row.used_at is None and row.expires_at > tx.now))


async def count_attempt(tx: Tx, otp_request_ids: Sequence[str], *, tries: int = 1) -> None:
    """Add `tries` to the attempts at codes of one phone; -1 gives back a try that was not checked."""
    await tx.execute(SQL["count_attempt"], otp_request_ids, tries)


async def use(tx: Tx, locked: Locked) -> None:
    """Use up all codes of a phone and kind of user, with the named request. None is sent later."""
    await tx.execute(SQL["use"], locked.named.id, [row.id for row in (locked.named, *locked.living)], tx.now)
