"""Rules of refunds: when the gateway is asked, whether an operator may try again, and the refusals
(docs/product.md#refunds)."""

import datetime as dt

from core.base import shown_texts
from core.base.errors import DomainError
from core.base.languages import Text

LONGEST_NOTE = 500  # characters of an operator's reason or note
# When to ask the gateway again after the n-th time; the last one repeats.
ASK_AFTER = tuple(dt.timedelta(seconds=seconds) for seconds in (15, 60, 180, 600, 1_800, 3_600))
STUCK_AFTER = dt.timedelta(hours=2)  # the alert SesiRefundStuck (deploy/prometheus) has the same time
AMOUNT_DIFFERS = "AMOUNT_DIFFERS"  # our own: the gateway has refunded another amount
# With these codes money may have gone back to the customer, by a refund that was made at the gateway by hand. The trigger
# `refund_is_whole` and the audit repeat them.
MAY_BE_REFUNDED = frozenset({"MAXIMUM_REFUND_AMOUNT_REACHED", AMOUNT_DIFFERS})


def may_try_again(*, gateway_refund_id: str | None, failure_code: str | None) -> bool:
    """Return whether a failed refund may be asked for again: no refund can have happened at the gateway."""
    return gateway_refund_id is None and failure_code not in MAY_BE_REFUNDED


def is_stuck(*, is_open: bool, requested_at: dt.datetime, now: dt.datetime) -> bool:
    """Return whether operators must look at an open refund: the gateway should have decided by now."""
    return is_open and now - requested_at > STUCK_AFTER


def checked_note(name: str, text: str | None) -> str | None:
    """Return an operator's note as it was sent; None if it is empty. Raises ValidationFailed."""
    if text:
        shown_texts.check_text(name, text, most=LONGEST_NOTE)
    return text or None


class RefundsDisabled(DomainError):
    """The service does not refund through the gateway: REFUNDS_ENABLED is false."""

    code = "REFUNDS_DISABLED"
    message = Text(
        en="Refunds through the gateway are switched off. Move the money yourself, and record it.",
        id="Pengembalian dana melalui gateway dimatikan. Kembalikan uangnya sendiri, lalu catat.",
    )


class RefundPending(DomainError):
    """The refund of this failure is under way, so its result decides about the failure."""

    code = "REFUND_PENDING"
    message = Text(
        en="A refund is under way. Wait for its result.",
        id="Pengembalian dana sedang berjalan. Tunggu hasilnya.",
    )


class NotRefundable(DomainError):
    """The gateway can't refund this payment, or its refund has failed there.

    `details.reason` is `no_refunds`, `too_late`, `not_paid_there` or `refund_failed`.
    """

    code = "NOT_REFUNDABLE"
    message = Text(
        en="The gateway can't refund this payment. Move the money yourself, and record it.",
        id="Gateway tidak dapat mengembalikan pembayaran ini. Kembalikan uangnya sendiri, lalu catat.",
    )
