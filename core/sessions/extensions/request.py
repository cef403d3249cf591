"""A customer asks to pay for more minutes (docs/product.md#extensions)."""

import attrs

from core.accounts.customers import block_account
from core.accounts.customers import store as customers
from core.base.actor import Actor
from core.base.errors import NotFound, ValidationFailed
from core.base.languages import Text
from core.idempotency import run as run_once
from core.idempotency.rules import KeyedRequest
from core.payments import invoices
from core.payments import store as payments
from core.payments.pricing import rules as pricing_rules
from core.payments.pricing import store as pricing
from core.payments.rules import FreeRequestOpen
from core.payments.store import PaymentRequest
from core.payments.views import PaymentRequestView
from core.runtime.container import Runtime
from core.sessions import store as sessions
from core.sessions.extensions import extend
from core.sessions.extensions import store as extensions
from core.sessions.extensions.rules import ExtensionLimit, ExtensionPending, SessionNotExtendable
from core.sessions.store import Session
from core.storage.transaction import Tx


@attrs.frozen(kw_only=True)
class MoreMinutes:
    """What the customer asks for. `mode` must be the session's, if given.

    `expected_amount`: the price in Rupiah that the customer was shown; None: not said.
    """

    session_id: str
    duration_minutes: int
    mode: str | None = None
    expected_amount: int | None = None


async def request_extension(
    runtime: Runtime, actor: Actor, wish: MoreMinutes, *, address: str, key: KeyedRequest | None = None
) -> PaymentRequestView:
    """Create a payment request for more minutes of a session. It is pending, or confirmed if the price is 0.

    `address` is the caller's. A retry with the same `key` gets the first answer. Raises RateLimited, NotFound,
    AccountBlocked, SessionNotExtendable, ExtensionPending, ExtensionLimit, TierNotFound, PriceChanged, FreeRequestOpen,
    ValidationFailed (`mode` differs from the session's), IdempotencyMismatch, IdempotencyInFlight, GatewayUnavailable.
    """
    async with run_once.transaction(runtime, key) as idempotent:
        if (before := idempotent.repeated(PaymentRequestView)) is not None:
            return before
        request = await invoices.unfinished_request(idempotent)
        if request is None:
            request = await _create(runtime, idempotent.tx, actor, wish, address)
        answer = await invoices.answer_or_claim(runtime, idempotent, request)
    return answer or await invoices.issue(runtime, idempotent, request)


async def _create(runtime: Runtime, tx: Tx, actor: Actor, wish: MoreMinutes, address: str) -> PaymentRequest:
    account = await customers.lock_account(tx, actor.user_id)
    session = await sessions.lock(tx, wish.session_id)
    if session is None or session.customer_id not in account:
        raise NotFound
    if wish.mode not in (None, session.mode):
        raise ValidationFailed.of(
            "mode", Text(en=f"must be {session.mode}, like the session's", id=f"harus {session.mode}, seperti sesinya")
        )
    await block_account.check(tx, actor.user_id)
    if not await extend.can_be_given(runtime, tx, session):
        raise SessionNotExtendable
    under_way = await payments.extension_under_way(tx, session.id)
    if under_way is not None:
        raise ExtensionPending(details={"payment_request_id": under_way})
    # Only one extension can be under way, so counting the approved ones is enough.
    most = runtime.config.number("max_extensions_per_session")
    if most and await extensions.count_agreed(tx, session.id) >= most:
        raise ExtensionLimit
    price = await _price(tx, list(account), session, wish)
    return await invoices.create(
        runtime,
        tx,
        customer_id=session.customer_id,
        account=list(account),
        address=address,
        amount=price,
        minutes=wish.duration_minutes,
        mode=session.mode,
        extends_session_id=session.id,
    )


async def _price(tx: Tx, account: list[str], session: Session, wish: MoreMinutes) -> int:
    """Return the price of more minutes in Rupiah. Raises TierNotFound, PriceChanged, FreeRequestOpen."""
    price = await pricing.price_of(tx, mode=session.mode, minutes=wish.duration_minutes)
    if price is None:
        raise pricing_rules.TierNotFound
    pricing_rules.check_expected(price, wish.expected_amount)
    if price == 0:
        open_id = await payments.open_free_request(tx, account, extends_session_id=session.id)
        if open_id is not None:
            raise FreeRequestOpen(details={"payment_request_id": open_id})
    return price
