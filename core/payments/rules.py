"""Rules of payment requests: when the gateway is polled, the order of payment methods, and the refusals
(docs/product.md#payment-requests)."""

import datetime as dt

from core.base.errors import DomainError, Kind, Repeat
from core.base.languages import Text

# When the jobs process asks the gateway about a pending request: this long after its invoice was made.
POLL_AFTER = tuple(dt.timedelta(minutes=minutes) for minutes in (1, 3, 10))
QRIS = "QRIS"  # the gateway's name for this payment method


class SessionInProgress(DomainError):
    """The customer has a live session or another paid request.

    `details.session_id` is the session's id, or null if there is only a request. `details.payment_request_id` is the
    request's id.
    """

    code = "SESSION_IN_PROGRESS"
    message = Text(en="You have a session in progress.", id="Anda masih memiliki sesi yang berjalan.")
    repeat = Repeat.LATER
    advice = "Open the session or the payment request that `details` names."


class FreeRequestOpen(DomainError):
    """The customer's last request at a price of 0 failed, and no operator has acted on it yet.

    `details.payment_request_id` is that request's id. Free requests cost nothing, so without this rule a customer could
    have all mitras asked again and again.
    """

    code = "FREE_REQUEST_OPEN"
    message = Text(
        en="Your last free request is still being processed.", id="Permintaan gratis Anda yang terakhir masih diproses."
    )
    repeat = Repeat.LATER
    advice = "Show that support is looking at the last request, and offer paid ones."


class PaymentNotPending(DomainError):
    """The payment request is not pending."""

    code = "PAYMENT_NOT_PENDING"
    message = Text(
        en="This payment request is not pending.", id="Permintaan pembayaran ini tidak lagi menunggu pembayaran."
    )
    advice = "Read the payment request again, and show its state."


class PaymentNotConfirmed(DomainError):
    """The payment request is not confirmed."""

    code = "PAYMENT_NOT_CONFIRMED"
    message = Text(en="This payment request is not confirmed.", id="Permintaan pembayaran ini belum dikonfirmasi.")
    repeat = Repeat.LATER
    advice = "Wait until the payment is confirmed."


class NotPreviousMitra(DomainError):
    """The customer has never had a session with this mitra."""

    kind = Kind.FORBIDDEN
    code = "NOT_PREVIOUS_MITRA"
    message = Text(
        en="You can only choose a mitra you have chatted with.",
        id="Anda hanya dapat kembali ke mitra yang pernah chat dengan Anda.",
    )
    advice = "Offer only mitras of the customer's history."


class NotReplayable(DomainError):
    """The call came without a valid token, and the gateway can't be asked about it: it is disabled, or the call names
    no invoice."""

    code = "NOT_REPLAYABLE"
    message = Text(
        en="The callback token is missing or invalid, and the gateway can't be asked.",
        id="Token panggilan tidak ada atau tidak sah, dan gateway tidak dapat ditanya.",
    )
    advice = "Look at the stored call; it can't be replayed."


def in_order(methods: tuple[str, ...], *, qris_first: bool) -> tuple[str, ...]:
    """Return the gateway's payment methods with QRIS first, or last if `qris_first` is False.

    The others keep their order.
    """
    return tuple(sorted(methods, key=lambda method: (method != QRIS) == qris_first))
