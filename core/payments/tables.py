"""The tables of payment requests and of invoice counts."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.base.field_types import Mode
from core.payments.states import PaymentStatus
from core.storage import columns
from core.storage.personal import Erase, Personal

TOPICS = Personal("what the customer wants to talk about", "always", Erase.NULL, exported=True)
INVOICE = Personal("the invoice at the gateway", "always: money", Erase.KEEP, exported=True)
CHANNEL = Personal("where the invoice is paid, and by which channel it was", "always: money", Erase.KEEP)
TRACE = Personal("finds the [trace](traces.md) of a payment; random ids", "as their rows", Erase.KEEP)
ADDRESS = Personal("limits of invoices", "an hour", Erase.KEEP, "gone within the hour")


class PaymentRequest(Table, tablename="payment_requests", db=columns.ENGINE):
    """A customer's request to pay, with its price fixed. `states.py` and a trigger hold the edges of `status`."""

    id = columns.identifier()
    customer_id = columns.reference("Customer", owner=True)
    amount = columns.number(default=0)
    # Set if less was paid than the invoice asked for: what it asked for. `amount` is what was paid.
    asked_amount = columns.number(null=True)
    duration_minutes = columns.number()
    is_first_session_discount = columns.flag()
    is_extension = columns.flag()
    # Set for an extension only: the session to extend.
    extends_session_id = columns.reference("ChatSession", null=True)
    mode = columns.text(default="chat")
    status = columns.text(default="pending")
    targeted_mitra_id = columns.reference("Mitra", null=True)
    topics = columns.texts(personal=TOPICS)
    created_at = columns.created()
    confirmed_at = columns.moment()
    consumed_at = columns.moment()
    expires_at = columns.moment(null=False)
    gateway_invoice_id = columns.string(255, null=True, unique=True, personal=INVOICE)
    gateway_invoice_url = columns.text(null=True, personal=CHANNEL)
    payment_channel = columns.string(50, null=True, personal=CHANNEL)  # how it was paid, by the gateway's word
    invoice_made_at = columns.moment()
    poll_at = columns.moment()  # when to ask the gateway next; ignored once the request is not pending
    traceparent = columns.string(55, null=True, personal=TRACE)  # of its confirmation, if traced (docs/traces.md)

    known_mode = columns.words("mode", Mode)
    known_status = columns.words("status", PaymentStatus)
    sane = Check("amount >= 0 AND duration_minutes > 0")
    extension_names_its_session = Check("is_extension = (extends_session_id IS NOT NULL)")
    paid_has_a_time = Check("(status IN ('confirmed', 'consumed', 'failed_pairing')) = (confirmed_at IS NOT NULL)")
    consumed_has_a_time = Check("(status = 'consumed') = (consumed_at IS NOT NULL)")
    short_is_less = Check("asked_amount > amount")
    discount_is_for_sessions = Check("NOT (is_extension AND is_first_session_discount)")


class InvoiceAsked(Table, tablename="invoices_asked", db=columns.ENGINE):
    """An invoice, counted for an hour. Its id is that of the payment request."""

    id = columns.identifier()
    customer_id = columns.plain_id(null=False)
    # The client's address: an IPv4 address, or an IPv6 network.
    address = columns.string(45, personal=ADDRESS)
    # Whether the account had paid before: such accounts have higher limits.
    has_paid = columns.flag()
    asked_at = columns.moment(null=False)
