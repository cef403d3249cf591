"""Reads of customers, mitras and operators for themselves, and of customers for operators."""

import datetime as dt

import attrs

from core.accounts.customers import store as customers
from core.accounts.customers.store import Customer
from core.accounts.mitras import store as mitras
from core.accounts.operators import store as operators
from core.accounts.operators.rules import Permissions, allows
from core.accounts.operators.store import Operator
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import CustomerId, MitraId, OperatorId
from core.desk import disclosure
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors


@attrs.frozen(kw_only=True)
class CustomerView:
    """A customer."""

    id: CustomerId
    phone: str | None
    display_name: str | None
    is_anonymous: bool
    email: str | None
    push_enabled: bool
    account_belongs_to: CustomerId | None
    usp_seen: bool
    created_at: dt.datetime


@attrs.frozen(kw_only=True)
class MitraView:
    """A mitra, as they see themselves."""

    id: MitraId
    phone: str
    display_name: str
    is_active: bool
    created_at: dt.datetime


@attrs.frozen(kw_only=True)
class OperatorView:
    """An operator, as they see themselves.

    `password_change_due`: they must replace a password that another person chose. `totp_required`: they need a second
    factor.
    """

    id: OperatorId
    email: str
    display_name: str
    role: str
    permissions: Permissions
    password_change_due: bool
    totp_enabled: bool
    totp_required: bool
    recovery_codes_left: int
    created_at: dt.datetime


def customer_view(customer: Customer) -> CustomerView:
    """Return the view of a customer for themselves."""
    return CustomerView(
        id=customer.id,
        phone=customer.phone,
        display_name=customer.display_name,
        is_anonymous=customer.is_anonymous,
        email=customer.email,
        push_enabled=customer.push_token is not None,
        account_belongs_to=customer.account_belongs_to,
        usp_seen=customer.usp_seen,
        created_at=customer.created_at,
    )


def operator_view(runtime: Runtime, operator: Operator) -> OperatorView:
    """Return the view of an operator for themselves."""
    return OperatorView(
        id=operator.id,
        email=operator.email,
        display_name=operator.display_name,
        role=operator.role_name,
        permissions=operator.permissions,
        password_change_due=operator.password_change_due,
        totp_enabled=operator.has_totp,
        totp_required=operator.requires_totp(production=runtime.settings.production),
        recovery_codes_left=operator.recovery_codes_left,
        created_at=operator.created_at,
    )


async def customer_me(runtime: Runtime, user_id: str) -> CustomerView:
    """Return the calling customer."""
    with translate_db_errors():
        customer = await customers.get(runtime.db, user_id)
    if customer is None:
        raise NotFound
    return customer_view(customer)


async def mitra_me(runtime: Runtime, user_id: str) -> MitraView:
    """Return the calling mitra."""
    with translate_db_errors():
        mitra = await mitras.get(runtime.db, user_id)
    if mitra is None:
        raise NotFound
    return MitraView(**attrs.asdict(mitra))


async def operator_me(runtime: Runtime, user_id: str) -> OperatorView:
    """Return the calling operator."""
    with translate_db_errors():
        operator = await operators.get(runtime.db, user_id)
    if operator is None:
        raise NotFound
    return operator_view(runtime, operator)


def masked_contact(text: str | None) -> str | None:
    """Return a phone number or e-mail address with its middle masked."""
    if text is None:
        return None
    name, at, domain = text.partition("@")
    return f"{name[:1]}***{at}{domain}" if at else f"{text[:4]}****{text[-2:]}"


async def customer_for_operator(runtime: Runtime, actor: Actor, customer_id: str) -> CustomerView:
    """Return a customer for an operator.

    Without the permission `customers.pii` phone and e-mail are masked; with it, an audit row records that they were
    read.
    """
    return (await shown_to(runtime, actor, [await customer_me(runtime, customer_id)], listed=False))[0]


async def shown_to(
    runtime: Runtime, actor: Actor, views: list[CustomerView], *, listed: bool = True
) -> list[CustomerView]:
    """Return customers as the operator may see them, and write an audit row about unmasked personal data.

    Raises Unavailable if the audit row can't be written.
    """
    if not allows(actor.permissions, "customers.pii", "read"):
        return [masked(view) for view in views]
    fields = [name for name in ("phone", "email") if any(getattr(view, name) for view in views)]
    ids = [view.id for view in views if view.phone or view.email]
    if listed:
        await disclosure.several(runtime, actor, object_type="customer", ids=ids, fields=fields)
    elif ids:
        await disclosure.one(runtime, actor, object_type="customer", object_id=ids[0], fields=fields)
    return views


def masked(view: CustomerView) -> CustomerView:
    """Return a customer with masked phone and e-mail."""
    return attrs.evolve(view, phone=masked_contact(view.phone), email=masked_contact(view.email))
