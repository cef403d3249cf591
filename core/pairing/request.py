"""A customer asks to pay, or abandons a request (docs/product.md#payment-requests)."""

import attrs

from core.accounts.customers import block_account
from core.accounts.customers import store as customers
from core.accounts.customers.rules import DisplayNameRequired
from core.accounts.mitras.rules import availability_policy
from core.accounts.mitras.store import check_any, check_mitra
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import CustomerId, MitraId, Mode
from core.idempotency import run as run_once
from core.idempotency.rules import KeyedRequest
from core.pairing.promises import promise
from core.payments import invoices, money
from core.payments import store as payments
from core.payments.pricing import rules as pricing_rules
from core.payments.pricing import store as pricing
from core.payments.rules import FreeRequestOpen, NotPreviousMitra, PaymentNotPending, SessionInProgress
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.payments.views import PaymentRequestView
from core.runtime.container import Runtime
from core.sessions import store as sessions
from core.storage.transaction import Tx


@attrs.frozen(kw_only=True)
class PaymentWish:
    """What the customer asks for. The price comes from the price list.

    `accept_wait`: the customer wants to pay even if no mitra is available now. `expected_amount`: the price in Rupiah
    that the customer was shown; None: not said.
    """

    mode: Mode
    duration_minutes: int | None
    first_session_discount: bool
    targeted_mitra_id: MitraId | None
    topics: list[str] | None
    accept_wait: bool = False
    expected_amount: int | None = None


async def request_payment(
    runtime: Runtime, actor: Actor, wish: PaymentWish, *, address: str, key: KeyedRequest | None = None
) -> PaymentRequestView:
    """Create a payment request with a fixed price. It is pending, or confirmed if the price is 0.

    An earlier pending request of the customer is abandoned. `address` is the caller's. A retry with the same `key` gets
    the first answer. Raises RateLimited, AccountBlocked, DisplayNameRequired, SessionInProgress, TierNotFound,
    DiscountNotEligible, PriceChanged, NoMitraAvailable, FreeRequestOpen, NotPreviousMitra, MitraOffline,
    MitraAtCapacity, IdempotencyMismatch, IdempotencyInFlight, GatewayUnavailable.
    """
    async with run_once.transaction(runtime, key) as idempotent:
        if (before := idempotent.repeated(PaymentRequestView)) is not None:
            return before
        request = await invoices.unfinished_request(idempotent) or await _create(
            runtime, idempotent.tx, actor, wish, address
        )
        answer = await invoices.answer_or_claim(runtime, idempotent, request)
    return answer or await invoices.issue(runtime, idempotent, request)


async def _create(runtime: Runtime, tx: Tx, actor: Actor, wish: PaymentWish, address: str) -> PaymentRequest:
    account = list(await customers.lock_account(tx, actor.user_id))
    await block_account.check(tx, actor.user_id)
    if await customers.name_of(tx, actor.user_id) is None:
        raise DisplayNameRequired
    in_progress = await payments.in_progress(tx, account, but=None)
    if in_progress is not None:
        raise SessionInProgress(details=in_progress.details)
    if wish.targeted_mitra_id is not None:
        await check_target(runtime, tx, account, wish.targeted_mitra_id)
    amount, minutes = await _price(runtime, tx, account, wish)
    pricing_rules.check_expected(amount, wish.expected_amount)
    if amount == 0 and (open_id := await payments.open_free_request(tx, account)) is not None:
        raise FreeRequestOpen(details={"payment_request_id": open_id})
    await money.abandon_pending(tx, account, by=actor)  # may wait for a lock; a refusal rolls it back
    if wish.targeted_mitra_id is None and not wish.accept_wait and runtime.config.flag("refuse_unservable_payments"):
        await check_any(tx, availability_policy(runtime.config), customer_id=actor.user_id)
    request = await invoices.create(
        runtime,
        tx,
        customer_id=CustomerId(actor.user_id),
        account=account,
        address=address,
        amount=amount,
        minutes=minutes,
        mode=wish.mode,
        discounted=wish.first_session_discount,
        targeted_mitra_id=wish.targeted_mitra_id,
        topics=wish.topics,
    )
    if request.targeted_mitra_id is None:
        await promise.make(tx, request.id)
    return request


async def _price(runtime: Runtime, tx: Tx, account: list[str], wish: PaymentWish) -> tuple[int, int]:
    if wish.first_session_discount:
        promotion = await pricing.first_session(tx)
        past = await pricing.past_of(tx, account, but_pending=True)
        return pricing_rules.discounted(
            promotion,
            past,
            mode=wish.mode,
            duration_minutes=wish.duration_minutes,
            requires_identity=runtime.config.flag("first_session_discount_requires_identity"),
        )
    if wish.duration_minutes is None:
        raise pricing_rules.TierNotFound
    price = await pricing.price_of(tx, mode=wish.mode, minutes=wish.duration_minutes)
    if price is None:
        raise pricing_rules.TierNotFound
    return price, wish.duration_minutes


async def check_target(runtime: Runtime, tx: Tx, account: list[str], mitra_id: str) -> None:
    """Check that a customer may ask this mitra now. Raises NotPreviousMitra, MitraOffline, MitraAtCapacity."""
    if not await sessions.any_between(tx, customer_ids=account, mitra_id=mitra_id):
        raise NotPreviousMitra
    await check_mitra(tx, mitra_id, availability_policy(runtime.config), customer_id=account[0])


async def abandon(runtime: Runtime, actor: Actor, *, payment_request_id: str) -> None:
    """Abandon a pending request. If it is abandoned already, nothing changes. Raises NotFound, PaymentNotPending."""
    async with runtime.transaction() as tx:
        await customers.lock_account(tx, actor.user_id)
        payment = await payments.lock(tx, payment_request_id)
        if payment is None or not actor.owns(payment.customer_id):
            raise NotFound
        if payment.status is PaymentStatus.ABANDONED:
            return
        if not await money.abandon(tx, payment, by=actor):
            raise PaymentNotPending
