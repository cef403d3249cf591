"""Payments with their searches and promises, inserted into the database as they would be after days."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.base import ids
from core.storage.transaction import Tx

# Triggers are off, so that rows in any state can be inserted. Constraints are on.
TRIGGERS_OFF = "SET LOCAL session_replication_role = replica"
PAYMENTS = """INSERT INTO payment_requests (id, customer_id, amount, duration_minutes, status, created_at, expires_at,
    confirmed_at, consumed_at, is_first_session_discount, is_extension, mode)
  SELECT id, id, 1, 12, status, made_at, made_at, confirmed_at, CASE WHEN status = 'consumed' THEN confirmed_at END,
    false, false, 'chat'
  FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[]) p(id, status, made_at, confirmed_at)"""
SESSIONS = """INSERT INTO chat_sessions (id, customer_id, payment_request_id, targeted_mitra_id, status, created_at,
    mitra_id, paired_at, expires_at, ended_at, round_ends_at, search_ends_at)
  SELECT id, payment_id, payment_id, CASE WHEN targeted THEN id END, status, began_at,
    CASE WHEN paired_at IS NOT NULL THEN id END, paired_at, began_at, ended_at, began_at, began_at
  FROM unnest($1::uuid[], $2::uuid[], $3::bool[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[])
    s(id, payment_id, targeted, status, began_at, paired_at, ended_at)"""
PROMISES = """INSERT INTO wait_promises (payment_request_id, made_at, p50_seconds, p90_seconds, is_shown)
  SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::int[], $4::int[], $5::bool[])"""


@attrs.frozen(kw_only=True)
class Past:
    """A payment and its search: the wait in seconds until it was accepted, failed, was cancelled or is now."""

    made_at: dt.datetime
    end: str  # accepted, failed, cancelled, searching, unpaid or unstarted
    wait: float
    began_after: float = 0.0  # seconds from the confirmation to the search
    is_targeted: bool = False
    falls_back: bool = False  # a blast follows a targeted search
    p50: int = 40
    p90: int = 120
    is_shown: bool = True
    id: str = attrs.field(factory=ids.new_id)

    @property
    def confirmed_at(self) -> dt.datetime | None:
        return None if self.end == "unpaid" else self.made_at

    @property
    def began_at(self) -> dt.datetime:
        return self.made_at + dt.timedelta(seconds=self.began_after)

    @property
    def ended_at(self) -> dt.datetime:
        return self.made_at + dt.timedelta(seconds=self.wait)


STATUS = {"accepted": "completed", "failed": "failed", "cancelled": "cancelled", "searching": "searching"}
PAYMENT = {"accepted": "consumed", "unpaid": "expired", "searching": "confirmed"}


async def insert(tx: Tx, past: Sequence[Past], *, promised: bool = False) -> None:
    """Insert payments with their searches and, if wanted, promises."""
    await tx.fetch(TRIGGERS_OFF)
    await tx.fetch(
        PAYMENTS, [one.id for one in past], [PAYMENT.get(one.end, "failed_pairing") for one in past],
        [one.made_at for one in past], [one.confirmed_at for one in past],
    )  # fmt: skip
    searched = [one for one in past if one.end in STATUS]
    # A targeted search that failed comes before the blast that follows it.
    found = [(one, True, "failed", one.made_at, None, one.made_at) for one in searched if one.falls_back]
    found += [
        (one, one.is_targeted, STATUS[one.end], one.began_at, one.ended_at if one.end == "accepted" else None,
         None if one.end == "searching" else one.ended_at)
        for one in searched
    ]  # fmt: skip
    await tx.fetch(
        SESSIONS, [ids.new_id() for _ in found], [one.id for one, *_ in found],
        *(list(values) for values in list(zip(*found, strict=True))[1:] or [[]] * 5),
    )  # fmt: skip
    if promised:
        await tx.fetch(
            PROMISES, [one.id for one in past], [one.made_at for one in past], [one.p50 for one in past],
            [one.p90 for one in past], [one.is_shown for one in past],
        )  # fmt: skip
