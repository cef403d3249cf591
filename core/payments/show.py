"""Reads of payment requests."""

import attrs

from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import Mode, PaymentRequestId
from core.payments import views
from core.payments.states import PaymentStatus
from core.payments.views import PaymentRequestView
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.records import one

SQL = sql_files.load(__file__)


async def payment(runtime: Runtime, actor: Actor, payment_request_id: str) -> PaymentRequestView:
    """Return a payment request of the caller.

    Raises NotFound if it is not theirs.
    """
    view = await views.one_of(runtime.db, payment_request_id, customer_ids=list(actor.ids))
    if view is None:
        raise NotFound
    return view


@attrs.frozen(kw_only=True)
class DevelopmentPage:
    """What the development payment page shows. `amount` is in Rupiah."""

    payment_request_id: PaymentRequestId
    status: PaymentStatus = attrs.field(converter=PaymentStatus)
    amount: int
    duration_minutes: int
    mode: Mode
    gateway_invoice_id: str | None


async def for_development_page(runtime: Runtime, payment_request_id: str) -> DevelopmentPage:
    """Return any payment request, for the development page that replaces the gateway's.

    Raises NotFound for an unknown id.
    """
    page = one(DevelopmentPage, await runtime.db.fetchrow(SQL["development_page"], payment_request_id))
    if page is None:
        raise NotFound
    return page
