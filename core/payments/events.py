"""The event of a payment request, and an example of one."""

import datetime as dt

from core.base.actor import UserType
from core.base.field_types import Id, PaymentRequestId
from core.base.languages import Text
from core.deliveries.events import Event
from core.deliveries.pushes.rules import Action, Words
from core.payments.failures.causes import CauseTag, SubCause
from core.payments.failures.rules import OperatorAction
from core.payments.refunds.states import RefundStatus
from core.payments.states import PaymentStatus
from core.payments.views import PaymentFailure, PaymentRefund, PaymentRequestView, PromisedWait

AT = dt.datetime(2026, 11, 21, 6, 30, 0, 250000, tzinfo=dt.UTC)  # when all examples of events and frames are sent
PAYMENT_ID = PaymentRequestId(Id("019aa4b6-5f00-7000-8000-00000000b001"))
REFUNDED = PaymentRequestView(
    payment_request_id=PAYMENT_ID,
    status=PaymentStatus.FAILED_PAIRING,
    mode="chat",
    amount=12000,
    duration_minutes=12,
    is_first_session_discount=False,
    is_extension=False,
    targeted_mitra_id=None,
    gateway_invoice_url="https://pay.example.test/web/inv-2026-0001",
    expires_at=AT - dt.timedelta(minutes=5),
    created_at=AT - dt.timedelta(minutes=25),
    confirmed_at=AT - dt.timedelta(minutes=1),
    consumed_at=None,
    session_id=None,
    failure=PaymentFailure(
        cause_tag=CauseTag.PAYMENT_SESSION_EXPIRED,
        sub_cause=SubCause.LATE,
        operator_action=OperatorAction.REFUNDED,
        actioned_at=AT,
        refund_status=RefundStatus.SUCCEEDED,
    ),
    refund=PaymentRefund(amount=12000, status=RefundStatus.SUCCEEDED, settled_at=AT, refunded=12000),
    promised=PromisedWait(p50=40, p90=120, at=AT - dt.timedelta(minutes=25)),
)


class PaymentUpdated(Event, kw_only=True, tag="payment_updated"):
    """A payment request of the customer has changed in a way that no other event reports: an extension was paid, a
    request expired or was abandoned on another device, money came too late or led to no chat, an operator acted, or
    earned money goes back. The ids of one request's events increase in the order of its changes."""

    payment_request: PaymentRequestView

    socket = "pairing"
    sent_to = (UserType.CUSTOMER,)
    order_key = "payment_updated {payment_request.payment_request_id}"
    app = "Replace the payment request on the screen by this one."
    push = Words(
        action=Action.OPEN_PAYMENT,
        title=Text(id="Status pembayaran", en="Payment status"),
        body=Text(id="Ada kabar tentang pembayaran Anda.", en="There is news about your payment."),
    )
    example = {"payment_request": REFUNDED}
