"""Whether and until when a payment channel refunds, as the gateway documents it (docs/fairness.md#refunds).

The table tells an operator what to expect before they promise something. The gateway has the last word.
"""

import datetime as dt
import enum
from typing import Any

import attrs

from core.base.plain_json import storable

LONGEST = 50
PREFIX = "ID_"  # the gateway's newer interfaces name Indonesian channels with it


class Refundability(enum.StrEnum):
    """Whether a refund through the gateway is possible."""

    REFUNDS = "refunds"
    SOME_ISSUERS = "some_issuers"
    UNKNOWN = "unknown"
    TOO_LATE = "too_late"
    NO_REFUNDS = "no_refunds"
    NOT_PAID_THERE = "not_paid_there"


ALLOWED = frozenset({Refundability.REFUNDS, Refundability.SOME_ISSUERS, Refundability.UNKNOWN})


@attrs.frozen
class PaymentChannel:
    """A payment channel: whether it refunds, and for how long after the payment; None: no limit is known."""

    refunds: Refundability
    window: dt.timedelta | None = None


_YES = PaymentChannel(Refundability.REFUNDS)
_NO = PaymentChannel(Refundability.NO_REFUNDS)
CHANNELS: dict[str, PaymentChannel] = {
    "QRIS": PaymentChannel(Refundability.SOME_ISSUERS, dt.timedelta(days=30)),
    **dict.fromkeys(("DANA", "LINKAJA", "SHOPEEPAY"), _YES),
    **dict.fromkeys(("OVO", "ASTRAPAY"), _NO),
    "CREDIT_CARD": _YES,
    "KREDIVO": PaymentChannel(Refundability.REFUNDS, dt.timedelta(days=14)),
    "INDODANA": PaymentChannel(Refundability.REFUNDS, dt.timedelta(days=30)),
    "AKULAKU": _YES,
    **dict.fromkeys(("BCA", "BNI", "BRI", "BSI", "CIMB", "MANDIRI", "PERMATA", "BANK_TRANSFER"), _NO),
    **dict.fromkeys(("ALFAMART", "INDOMARET", "RETAIL_OUTLET"), _NO),
}
# A call without a channel may still have a method that has one channel only.
OF_METHODS = {"QR_CODE": "QRIS", "CREDIT_CARD": "CREDIT_CARD"} | {
    method: method for method in ("BANK_TRANSFER", "RETAIL_OUTLET")
}


def channel_of(body: dict[str, Any]) -> str | None:
    """Return the payment channel of an invoice of the gateway; None if it names none."""
    named = storable(body.get("payment_channel"), LONGEST)
    if named is not None:
        return named.upper().removeprefix(PREFIX) or None
    method = storable(body.get("payment_method"), LONGEST)
    return OF_METHODS.get(method.upper()) if method is not None else None


@attrs.frozen(kw_only=True)
class Outlook:
    """Whether a refund is possible, and the moment until which the channel refunds; None without a known limit."""

    refundability: Refundability
    until: dt.datetime | None

    @property
    def is_refundable(self) -> bool | None:
        """Return whether a refund is possible; None if that is not known."""
        return None if self.refundability is Refundability.UNKNOWN else self.refundability in ALLOWED


def outlook(
    channel: str | None,
    *,
    amount: int,
    invoice_id: str | None,
    paid_at: dt.datetime | None,
    by_hand: bool,
    now: dt.datetime,
) -> Outlook:
    """Return whether a payment can be refunded.

    `by_hand`: an operator confirmed it, so the gateway need not have the money.
    """
    if amount == 0 or invoice_id is None or paid_at is None or (by_hand and channel is None):
        return Outlook(refundability=Refundability.NOT_PAID_THERE, until=None)
    known = CHANNELS.get(channel or "")
    if known is None:
        return Outlook(refundability=Refundability.UNKNOWN, until=None)
    until = None if known.window is None else paid_at + known.window
    late = until is not None and until <= now
    return Outlook(refundability=Refundability.TOO_LATE if late else known.refunds, until=until)
