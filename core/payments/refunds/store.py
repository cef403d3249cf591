"""Reads of refunds, and writes that leave their status as it is."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.payments.refunds.rules import ASK_AFTER, MAY_BE_REFUNDED
from core.payments.refunds.states import OPEN, RefundStatus
from core.payments.refunds.tables import Refund as Refunds
from core.storage import sql_files
from core.storage.records import many, one
from core.storage.statements import columns_of, names_of, p, statement
from core.storage.transaction import Reader, Tx


@attrs.frozen(kw_only=True)
class Refund:
    """A row of refunds. `amount` is in Rupiah. Without a failure, it gives earned money back.

    `reason` is what the operator wrote.
    """

    id: str
    payment_request_id: str
    failure_id: str | None
    reference: str | None
    amount: int
    status: RefundStatus = attrs.field(converter=RefundStatus)
    reason: str | None = attrs.field(repr=False)
    requested_by: str
    attempt: int
    gateway_refund_id: str | None
    failure_code: str | None

    @property
    def name_there(self) -> str:
        """The reference by which the gateway has it."""
        return self.reference or self.failure_id or self.id

    @property
    def is_open(self) -> bool:
        """Return whether its result is not known yet."""
        return self.status in OPEN

    @property
    def bars_another_try(self) -> bool:
        """Return whether the customer may get the money back, or have it, by this refund."""
        return self.is_open or self.may_have_paid

    @property
    def may_have_paid(self) -> bool:
        """Return whether it has failed, but the customer may have the money by another refund that the gateway made."""
        return self.failure_code in MAY_BE_REFUNDED


@attrs.frozen(kw_only=True)
class DueRefund:
    """A refund that the gateway must be asked about. `gateway_invoice_id` is the invoice that was paid."""

    id: str
    name_there: str
    amount: int
    attempt: int
    gateway_refund_id: str | None
    gateway_invoice_id: str | None


@attrs.frozen(kw_only=True)
class Paid:
    """How a payment request was paid. `by_hand`: an operator confirmed it. `amount` is in Rupiah."""

    amount: int
    payment_channel: str | None
    gateway_invoice_id: str | None
    confirmed_at: dt.datetime | None
    by_hand: bool


SQL = sql_files.load(__file__)
COLUMNS = columns_of(Refunds, Refund)
OF_FAILURE = statement(Refunds.select(*COLUMNS).where(Refunds.failure_id == p.failure_id), Refund)
GET = statement(Refunds.select(*COLUMNS).where(Refunds.id == p.id), Refund)
BY_HAND = statement(
    Refunds.select(Refunds.id).where(
        Refunds.payment_request_id == p.payment_request_id, Refunds.hand_reference == p.reference
    )
)
OF_EARNED = statement(
    Refunds.select(*COLUMNS).where(Refunds.payment_request_id == p.payment_request_id, Refunds.failure_id.is_null()),
    Refund,
)
NAMED = f"SELECT {names_of(Refund)} FROM refunds WHERE coalesce(reference, failure_id, id) = $1"
WAS_NAMED = "SELECT EXISTS(SELECT 1 FROM refunds WHERE earlier_references @> ARRAY[$1]::uuid[])"
ASK_NOW = statement(
    Refunds.update(ask_at=p.now).where(
        Refunds.id == p.id, Refunds.status.is_in([RefundStatus.REQUESTED, RefundStatus.PENDING])
    )
)


async def of_failure(reader: Reader, failure_id: str) -> Refund | None:
    """Return the refund of a failure; None without one. Writers must hold the failure's lock."""
    return await OF_FAILURE.first(reader, failure_id=failure_id)


async def get(reader: Reader, refund_id: str) -> Refund | None:
    """Return a refund; None for an unknown id."""
    return await GET.first(reader, id=refund_id)


async def named(reader: Reader, name_there: str) -> Refund | None:
    """Return the refund that the gateway has by a reference; None if it is not ours."""
    return one(Refund, await reader.fetchrow(NAMED, name_there))


async def was_named(reader: Reader, name_there: str) -> bool:
    """Return whether the gateway has a failed attempt of a refund of ours by a reference."""
    return await reader.fetchval(WAS_NAMED, name_there)


async def rename(tx: Tx, refund_id: str, reference: str) -> None:
    """Give a refund that has failed at the gateway another reference, and keep the present one."""
    await tx.execute(SQL["rename"], refund_id, reference)


async def by_hand(reader: Reader, payment_request_id: str, reference: str) -> str | None:
    """Return the id of the refund by hand of a payment with a reference; None without one."""
    return await BY_HAND.value(reader, payment_request_id=payment_request_id, reference=reference)


async def of_earned(reader: Reader, payment_request_id: str) -> list[Refund]:
    """Return the refunds of an earned payment. Writers must hold the payment's lock."""
    return await OF_EARNED.all(reader, payment_request_id=payment_request_id)


async def paid(reader: Reader, payment_request_id: str) -> Paid:
    """Return how a payment request was paid."""
    found = one(Paid, await reader.fetchrow(SQL["paid"], payment_request_id))
    assert found is not None
    return found


async def claim_due(tx: Tx, limit: int) -> list[DueRefund]:
    """Claim open refunds about which the gateway must be asked, and set when to ask again."""
    return many(DueRefund, await tx.fetch(SQL["claim_due"], tx.now, list(ASK_AFTER), limit))


async def give_back(tx: Tx, refund_ids: Sequence[str]) -> None:
    """Make claimed refunds due again, because the gateway was not asked."""
    await tx.execute(SQL["give_back"], refund_ids, tx.now)


async def ask_now(tx: Tx, refund_id: str) -> dt.datetime:
    """Have the gateway asked about a refund at once, if it is open. Return the time."""
    await ASK_NOW.execute(tx, id=refund_id, now=tx.now)
    return tx.now


def left_of(earned: int, refunds: Sequence[Refund]) -> int:
    """Return how many Rupiah of an earned payment can still go back: less those refunds that are done or under way."""
    return earned - sum(one.amount for one in refunds if one.status is not RefundStatus.FAILED)
