"""Rules of refunds: what the gateway's report means, when it is asked, whether an operator may try again, the refusals
(docs/product.md#refunds)."""

import datetime as dt
import re

import attrs

from core.base import field_messages, phones, shown_texts
from core.base.errors import DomainError, Repeat, ValidationFailed
from core.base.languages import Text
from core.payments.gateway_calls import CURRENCY, CallCase, RefundCall, RefundStateThere
from core.payments.refunds.states import RefundStatus

LONGEST_NOTE = 500  # characters of an operator's reason or note
LONGEST_REFERENCE = 64  # characters by which an operator names a transfer
REFERENCE = re.compile(r"[A-Za-z0-9]+(?:[-_./:#][A-Za-z0-9]+)*")  # a bank's or wallet's number, but no sentence
# When to ask the gateway again after the n-th time; the last one repeats.
ASK_AFTER = tuple(dt.timedelta(seconds=seconds) for seconds in (15, 60, 180, 600, 1_800, 3_600))
STUCK_AFTER = dt.timedelta(hours=2)  # the alert SesiRefundStuck (deploy/prometheus) has the same time
UNNAMED = "FAILED"  # the code of a failure for which the gateway gives no reason
AMOUNT_DIFFERS = "AMOUNT_DIFFERS"  # our own: the gateway has refunded another amount
NO_BALANCE = "INSUFFICIENT_BALANCE"  # ours at the gateway: once it is topped up, another try can succeed
# With these codes money may have gone back to the customer, by a refund that was made at the gateway by hand. The
# trigger `refund_is_whole` and the audit repeat them.
MAY_BE_REFUNDED = frozenset({"MAXIMUM_REFUND_AMOUNT_REACHED", AMOUNT_DIFFERS})


@attrs.frozen(kw_only=True)
class JudgedRefund:
    """A refund of ours. `is_undecided`: its failure is not superseded, and no operator's action is recorded.

    If it is of earned money: the other refunds leave as much as this one gives back.
    """

    status: RefundStatus
    amount: int
    gateway_refund_id: str | None
    is_undecided: bool


def judge(call: RefundCall, ours: JudgedRefund) -> CallCase:
    """Return the case of a call about a refund of ours. A conflict changes nothing."""
    if ours.gateway_refund_id is not None and call.refund_id != ours.gateway_refund_id:
        return CallCase.CONFLICT
    if call.state is RefundStateThere.SUCCEEDED:
        return _judge_success(call, ours)
    if call.state is RefundStateThere.PENDING:
        return CallCase.IGNORED_STATUS
    if ours.status is RefundStatus.SUCCEEDED:
        return CallCase.CONFLICT
    return CallCase.DUPLICATE if ours.status is RefundStatus.FAILED else CallCase.REFUND_FAILED


def _judge_success(call: RefundCall, ours: JudgedRefund) -> CallCase:
    if call.amount != ours.amount or (call.currency or CURRENCY) != CURRENCY:
        return CallCase.CONFLICT
    if ours.status is RefundStatus.SUCCEEDED:
        return CallCase.DUPLICATE
    return CallCase.REFUND_SUCCEEDED if ours.is_undecided else CallCase.CONFLICT


def may_try_again(*, gateway_refund_id: str | None, failure_code: str | None) -> bool:
    """Return whether a failed refund may be asked for again: no refund can have happened at the gateway.

    One that failed there for want of our own balance gets another reference.
    """
    return failure_code == NO_BALANCE or (gateway_refund_id is None and failure_code not in MAY_BE_REFUNDED)


def is_stuck(*, is_open: bool, requested_at: dt.datetime, now: dt.datetime) -> bool:
    """Return whether operators must look at an open refund: the gateway should have decided by now."""
    return is_open and now - requested_at > STUCK_AFTER


def checked_note(name: str, text: str | None) -> str | None:
    """Return an operator's note as it was sent; None if it is empty. Raises ValidationFailed."""
    if text:
        shown_texts.check_text(name, text, most=LONGEST_NOTE)
    return text or None


def check_reference(reference: str) -> None:
    """Check the number of a transfer.

    A customer's phone number, to which money of a wallet goes, and an e-mail address are none. Raises ValidationFailed.
    """
    if not 1 <= len(reference) <= LONGEST_REFERENCE:
        raise ValidationFailed.of("reference", field_messages.length(1, LONGEST_REFERENCE))
    if REFERENCE.fullmatch(reference) is None:
        raise ValidationFailed.of(
            "reference",
            Text(
                en="must be the number of a transfer: letters and digits with single - _ . / : # between them",
                id="harus berupa nomor transfer: huruf dan angka, dengan satu - _ . / : # di antaranya",
            ),
        )
    if phones.is_mobile(reference, country="ID"):
        raise ValidationFailed.of(
            "reference",
            Text(
                en="must be the number of a transfer, not a phone number",
                id="harus berupa nomor transfer, bukan nomor telepon",
            ),
        )


class RefundsDisabled(DomainError):
    """The service does not refund through the gateway: REFUNDS_ENABLED is false."""

    code = "REFUNDS_DISABLED"
    message = Text(
        en="Refunds through the gateway are switched off. Move the money yourself, and record it.",
        id="Pengembalian dana melalui gateway dimatikan. Kembalikan uangnya sendiri, lalu catat.",
    )
    advice = "Hide the button: `may_refund` is false. Record a refund that you made yourself."


class RefundPending(DomainError):
    """The refund of this failure is under way, so its result decides about the failure."""

    code = "REFUND_PENDING"
    message = Text(
        en="A refund is under way. Wait for its result.",
        id="Pengembalian dana sedang berjalan. Tunggu hasilnya.",
    )
    repeat = Repeat.LATER
    advice = "Read the failure again until `refund.status` is `succeeded` or `failed`."


class NotRefundable(DomainError):
    """The gateway can't refund this payment, or its refund has failed there.

    `details.reason` is `no_refunds`, `too_late`, `not_paid_there` or `refund_failed`.
    """

    code = "NOT_REFUNDABLE"
    message = Text(
        en="The gateway can't refund this payment. Move the money yourself, and record it.",
        id="Gateway tidak dapat mengembalikan pembayaran ini. Kembalikan uangnya sendiri, lalu catat.",
    )
    advice = "Show why (`details.reason`). Move the money in another way, and record it with a note."


class PaymentNotConsumed(DomainError):
    """The money of this request was not earned. A failed pairing has its own refund."""

    code = "PAYMENT_NOT_CONSUMED"
    message = Text(
        en="Only earned money can be made good. For a paid request without a chat, act on its failed pairing.",
        id="Hanya uang yang sudah menjadi pendapatan yang dapat diganti. Untuk pembayaran tanpa obrolan, tangani "
        "kegagalan pencariannya.",
    )
    advice = "Open the failed pairing of the request, if it has one."


class RefundExceedsPaid(DomainError):
    """The amount is less than 1, or more than what was received for this request, minus its refunds that are done or
    under way.

    `details.refundable` is what is left, in Rupiah.
    """

    code = "REFUND_EXCEEDS_PAID"
    message = Text(
        en="The amount must be from 1 to what is left of this payment.",
        id="Jumlahnya harus dari 1 sampai sisa pembayaran ini.",
    )
    advice = "Show `details.refundable`, and let the operator enter 1 to that."
