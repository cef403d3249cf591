"""Ask another mitra of the history with the money of a failed targeted request (docs/product.md#another-mitra)."""

from core.accounts.customers import block_account, erasing
from core.accounts.customers import store as customers
from core.accounts.mitras import store as mitras
from core.base.actor import Actor
from core.base.errors import NotFound, Unauthenticated, ValidationFailed
from core.base.field_types import MitraId
from core.base.languages import Text
from core.idempotency import run as run_once
from core.idempotency.rules import KeyedRequest
from core.pairing import fallback
from core.pairing.request import check_target
from core.payments import store as payments
from core.payments import views
from core.payments.invoices import CREATED
from core.payments.rules import SessionInProgress
from core.payments.store import PaymentRequest
from core.payments.views import PaymentRequestView
from core.runtime.container import Runtime


async def retarget(
    runtime: Runtime, actor: Actor, *, payment_request_id: str, mitra_id: MitraId, key: KeyedRequest | None = None
) -> PaymentRequestView:
    """Begin a new search with a failed targeted request, which asks another mitra. Return the request.

    A retry with the same `key` gets the first answer. Raises NotFound, NotTargeted, FailureActioned, SessionInProgress,
    NotPreviousMitra, MitraOffline, MitraAtCapacity, DiscountNotEligible, AccountBlocked, Unauthenticated,
    ValidationFailed, IdempotencyMismatch, IdempotencyInFlight.
    """
    async with run_once.transaction(runtime, key) as idempotent:
        if (before := idempotent.repeated(PaymentRequestView)) is not None:
            return before
        tx = idempotent.tx
        account = list(await customers.lock_account(tx, actor.user_id))
        if await erasing.is_erased(tx, actor.user_id):  # within a second of the erasure, before its token is refused
            raise Unauthenticated
        await block_account.check(tx, actor.user_id)
        await mitras.lock(tx, mitra_id)
        payment = await payments.lock(tx, payment_request_id)
        if payment is None or payment.customer_id not in account:
            raise NotFound
        in_progress = await payments.in_progress(tx, account, but=None)
        if in_progress is not None:  # perhaps the search that another device has just begun with this request
            raise SessionInProgress(details=in_progress.details)
        failure = await fallback.lock_failure(tx, payment)
        _check_another(payment, mitra_id)
        await check_target(runtime, tx, account, mitra_id)
        await fallback.begin_again(runtime, tx, actor, payment, failure, account, targeted_mitra_id=mitra_id)
        view = await views.one_of(tx, payment.id, customer_ids=account)
        assert view is not None
        await idempotent.keep(view, http_status=CREATED)
    return view


def _check_another(payment: PaymentRequest, mitra_id: str) -> None:
    if payment.targeted_mitra_id == mitra_id:
        raise ValidationFailed.of(
            "mitra_id", Text(en="must be another mitra than the last one", id="harus mitra lain dari yang terakhir")
        )
