"""Routes for the customer's payment requests and transactions (docs/protocol.md#payment)."""

from typing import Any

import attrs
from litestar import Request, get, post

from api.auth import client_ip, customers
from api.idempotency import ADDED, key_of
from api.parameters import path_id
from api.request_bodies import Body, optional_integer
from core.accounts.customers.rules import AccountBlocked, DisplayNameRequired
from core.accounts.mitras.rules import MitraAtCapacity, MitraOffline, NoMitraAvailable
from core.base import shown_texts
from core.base.actor import Actor
from core.base.errors import GatewayUnavailable, NotFound, ValidationFailed
from core.base.field_types import MitraId, Mode, SessionId
from core.base.languages import Text
from core.base.pages import Items, read_page
from core.idempotency.rules import IdempotencyInFlight, IdempotencyMismatch
from core.pairing import request as payment_request
from core.pairing.request import PaymentWish
from core.payments import poll as invoice_poll
from core.payments import show as show_payments
from core.payments.pricing.rules import DiscountNotEligible, PriceChanged, TierNotFound
from core.payments.rules import FreeRequestOpen, NotPreviousMitra, PaymentNotPending, SessionInProgress
from core.payments.views import PaymentRequestView
from core.runtime.container import Runtime
from core.sessions import own_lists
from core.sessions.extensions import request as extension_request
from core.sessions.extensions.request import MoreMinutes
from core.sessions.extensions.rules import ExtensionLimit, ExtensionPending, SessionNotExtendable

PAYING = (
    AccountBlocked,
    SessionInProgress,
    TierNotFound,
    PriceChanged,
    DisplayNameRequired,
    FreeRequestOpen,
    NotPreviousMitra,
    MitraOffline,
    MitraAtCapacity,
    GatewayUnavailable,
    IdempotencyMismatch,
    IdempotencyInFlight,
)
LONGEST_TOPIC = 64  # characters of its NFC


def _check_topics(_: object, __: object, value: list[str]) -> None:
    for topic in value:
        fault = shown_texts.fault_of_line(topic, most=LONGEST_TOPIC)
        if fault is not None:
            raise ValueError(
                Text(
                    en=f"must hold topics that each {fault.en}", id=f"harus berisi topik yang masing-masing {fault.id}"
                )
            )


def _as_lines(value: list[str]) -> list[str]:
    return [shown_texts.as_line(topic) for topic in value]


def topics_field() -> Any:
    """Return an optional field for the customer's topics: at most 12, of 1 to 64 characters each."""
    bounds = attrs.validators.optional([attrs.validators.max_len(12), _check_topics])
    schema = {"items": {"type": "string", "minLength": 1, "maxLength": LONGEST_TOPIC}}
    read = attrs.converters.optional(_as_lines)
    return attrs.field(default=None, converter=read, validator=bounds, metadata={"schema": schema})


@attrs.frozen(kw_only=True)
class PaymentBody:
    """A payment request for a session; with `is_extension`, for more minutes of `session_id`, in that session's mode.
    With `first_session_discount` the `duration_minutes` may be left out. With `accept_wait` it is accepted while no
    mitra is available, too. With `expected_amount`, the price that the customer was shown, another price is refused."""

    mode: Mode | None = None
    duration_minutes: int | None = optional_integer(1, 1440)
    first_session_discount: bool = False
    targeted_mitra_id: MitraId | None = None
    is_extension: bool = False
    session_id: SessionId | None = None
    topics: list[str] | None = topics_field()
    accept_wait: bool = attrs.field(default=False, metadata=ADDED)
    expected_amount: int | None = optional_integer(0, metadata=ADDED)


def _extension(data: PaymentBody) -> MoreMinutes:
    """Return what an extension asks for.

    Raises ValidationFailed if a field is missing or does not apply to an extension.
    """
    if not data.is_extension:
        raise ValidationFailed.of(
            "session_id",
            Text(
                en="is only for extensions: `is_extension` must be true",
                id="hanya untuk perpanjangan: `is_extension` harus true",
            ),
        )
    if data.session_id is None:
        raise ValidationFailed.of(
            "session_id", Text(en="is required for an extension", id="wajib diisi untuk perpanjangan")
        )
    if data.duration_minutes is None:
        raise ValidationFailed.of(
            "duration_minutes", Text(en="is required for an extension", id="wajib diisi untuk perpanjangan")
        )
    for name in ("first_session_discount", "targeted_mitra_id", "topics", "accept_wait"):
        if getattr(data, name):
            raise ValidationFailed.of(
                name, Text(en="must be absent for an extension", id="tidak berlaku untuk perpanjangan")
            )
    return MoreMinutes(
        session_id=data.session_id,
        duration_minutes=data.duration_minutes,
        mode=data.mode,
        expected_amount=data.expected_amount,
    )


@post(
    ["/api/client/payment/requests", "/api/client/payment/sessions"],
    status_code=201,
    dto=Body[PaymentBody],
    return_dto=None,
    idempotent=True,
    **customers(
        *PAYING, NoMitraAvailable, DiscountNotEligible, NotFound, SessionNotExtendable, ExtensionPending, ExtensionLimit
    ),
)
async def request_payment(
    data: PaymentBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> PaymentRequestView:
    """Create a payment request.

    With an `Idempotency-Key` a repeat gets the first answer again.
    """
    extension = data.is_extension or data.session_id is not None
    if not extension and data.mode is None:
        data = attrs.evolve(data, mode="chat")
    key = key_of(request, actor, "payment", data)
    if extension:
        return await extension_request.request_extension(
            runtime, actor, _extension(data), address=client_ip(request), key=key
        )
    wish = PaymentWish(
        mode=data.mode or "chat",
        duration_minutes=data.duration_minutes,
        first_session_discount=data.first_session_discount,
        targeted_mitra_id=data.targeted_mitra_id,
        topics=data.topics,
        accept_wait=data.accept_wait,
        expected_amount=data.expected_amount,
    )
    return await payment_request.request_payment(runtime, actor, wish, address=client_ip(request), key=key)


@get(
    ["/api/client/payment/requests/{request_id:str}", "/api/client/payment/sessions/{request_id:str}"],
    **customers(),
)
async def payment(request_id: str, runtime: Runtime, actor: Actor) -> PaymentRequestView:
    """Return a payment request of the caller."""
    view = await show_payments.payment(runtime, actor, path_id(request_id))
    invoice_poll.after_reading(runtime, view)
    return view


@post(
    [
        "/api/client/payment/requests/{request_id:str}/abandon",
        "/api/client/payment/sessions/{request_id:str}/abandon",
    ],
    status_code=200,
    **customers(PaymentNotPending),
)
async def abandon(request_id: str, runtime: Runtime, actor: Actor) -> PaymentRequestView:
    """Abandon a pending payment request."""
    found = path_id(request_id)
    await payment_request.abandon(runtime, actor, payment_request_id=found)
    return await show_payments.payment(runtime, actor, found)


@get("/api/client/payment/requests", **customers())
async def payments_made(
    runtime: Runtime, actor: Actor, cursor: str | None = None, limit: int | None = None
) -> Items[PaymentRequestView]:
    """List the caller's payment requests with their outcomes, newest first."""
    return await own_lists.payment_requests(runtime, actor, read_page(cursor, limit))


@get("/api/client/transactions", **customers())
async def transactions(
    runtime: Runtime, actor: Actor, cursor: str | None = None, limit: int | None = None
) -> Items[own_lists.TransactionView]:
    """List what the caller's sessions and extensions have cost, newest first."""
    return await own_lists.transactions(runtime, actor, read_page(cursor, limit))


ROUTES = [request_payment, payment, abandon, payments_made, transactions]
