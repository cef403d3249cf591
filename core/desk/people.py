"""Reads of customers, mitras and operators: for themselves, and as operators see them, with the roles of operators."""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from core.accounts.customers import block_account
from core.accounts.customers import erasing as customer_erasing
from core.accounts.customers import store as customer_store
from core.accounts.customers.block_account import AccountBlock
from core.accounts.customers.rules import KINDS, Provider
from core.accounts.customers.store import Customer
from core.accounts.mitras import store as mitra_store
from core.accounts.operators import store as operator_store
from core.accounts.operators.edit import EnrolmentCode
from core.accounts.operators.rules import Permissions, locks_by_address, requires_totp
from core.accounts.operators.store import Operator
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import Count, CustomerId, MitraId, OperatorId, RoleId
from core.base.pages import Items, Page, cut
from core.base.phones import like_numbers
from core.desk import disclosure
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.conditions import part_of
from core.storage.records import as_dict, many

SQL = sql_files.load(__file__)
MITRA = f"""{SQL["mitras"]}
WHERE m.id = $1"""
# $1 is a pattern of the name and $7 has patterns of the phone; $2 is whether the mitra is active, $3 whether online.
MITRAS = f"""{SQL["mitras"]}
WHERE
  ($1::text IS NULL OR folded(m.display_name) LIKE folded($1) OR m.phone LIKE ANY ($7::text[]))
  AND ($2::bool IS NULL OR m.is_active = $2)
  AND ($3::bool IS NULL OR coalesce(o.is_online, false) = $3)
  AND ($4::timestamptz IS NULL OR (m.created_at, m.id) < ($4, $5::uuid))
ORDER BY m.created_at DESC, m.id DESC
LIMIT $6"""
OPERATOR = f"""{SQL["operators"]}
WHERE o.id = $3"""
OPERATORS = f"""{SQL["operators"]}
WHERE $3::timestamptz IS NULL OR (o.created_at, o.id) < ($3, $4::uuid)
ORDER BY o.created_at DESC, o.id DESC
LIMIT $5"""
ROLE = f"""{SQL["roles"]}
WHERE r.id = $1"""
ROLES = f"""{SQL["roles"]}
WHERE $1::timestamptz IS NULL OR (r.created_at, r.id) < ($1, $2::uuid)
ORDER BY r.created_at DESC, r.id DESC
LIMIT $3"""


@attrs.frozen(kw_only=True)
class CustomerView:
    """A customer. `identities`: the providers whose identities they can sign in with."""

    id: CustomerId
    phone: str | None
    display_name: str | None
    is_anonymous: bool
    email: str | None
    identities: list[Provider]
    push_enabled: bool
    account_belongs_to: CustomerId | None
    usp_seen: bool
    created_at: dt.datetime


@attrs.frozen(kw_only=True)
class CustomerForOperators(CustomerView):
    """A customer, as operators see them. `block` is that of their account by an operator; null: it is not blocked.

    `erased_at` is when their personal data was erased.
    """

    block: AccountBlock | None
    erased_at: dt.datetime | None


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
        identities=[name for name, kind in KINDS.items() if getattr(customer, kind.value) is not None],
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
    """Return the calling customer. Raises NotFound if they are gone."""
    customer = await customer_store.get(runtime.db, user_id)
    if customer is None:
        raise NotFound
    return customer_view(customer)


async def mitra_me(runtime: Runtime, user_id: str) -> MitraView:
    """Return the calling mitra. Raises NotFound if they are gone."""
    mitra = await mitra_store.get(runtime.db, user_id)
    if mitra is None:
        raise NotFound
    return MitraView(**attrs.asdict(mitra))


async def operator_me(runtime: Runtime, user_id: str) -> OperatorView:
    """Return the calling operator. Raises NotFound if they are gone."""
    operator = await operator_store.get(runtime.db, user_id)
    if operator is None:
        raise NotFound
    return operator_view(runtime, operator)


async def customer_for_operator(
    runtime: Runtime, actor: Actor, customer_id: str, *, has_written: bool = False
) -> CustomerForOperators:
    """Return a customer for an operator. Raises NotFound for an unknown id.

    Without the permission `customers.pii` phone and e-mail are masked, and the reason of a block is hidden; with it, an
    audit row records that they were read. `has_written`: the operator has just written the block.
    """
    view = await customer_me(runtime, customer_id)
    return (await shown_to(runtime, actor, [view], listed=False, has_written=has_written))[0]


async def shown_to(
    runtime: Runtime, actor: Actor, views: list[CustomerView], *, listed: bool = True, has_written: bool = False
) -> list[CustomerForOperators]:
    """Return customers as the operator may see them, and write an audit row about unmasked personal data.

    `has_written`: the operator has just written the reason of the block, so it does not count as read.
    Raises Unavailable if the audit row can't be written.
    """
    of_all = [view.id for view in views]
    blocks = await block_account.of_all(runtime.db, of_all, now=runtime.now())
    erased = await customer_erasing.erased_at(runtime.db, of_all)
    shown = [
        CustomerForOperators(**attrs.asdict(view), block=blocks.get(view.id), erased_at=erased.get(view.id))
        for view in views
    ]
    if not disclosure.readable(actor):
        return [masked(view) for view in shown]
    fields = [name for name in ("phone", "email") if any(getattr(view, name) for view in views)]
    reads_blocks = bool(blocks) and not has_written
    fields += ["block"] if reads_blocks else []
    ids = [view.id for view in shown if view.phone or view.email or (view.block and reads_blocks)]
    if listed:
        await disclosure.several(runtime, actor, object_type="customer", ids=ids, fields=fields)
    elif ids:
        await disclosure.one(runtime, actor, object_type="customer", object_id=ids[0], fields=fields)
    return shown


def masked(view: CustomerForOperators) -> CustomerForOperators:
    """Return a customer with masked phone and e-mail, and without the reason of a block."""
    block = view.block and attrs.evolve(view.block, reason=disclosure.hidden(view.block.reason))
    phone, email = disclosure.masked_contact(view.phone), disclosure.masked_contact(view.email)
    return attrs.evolve(view, phone=phone, email=email, block=block)


@attrs.frozen(kw_only=True)
class MitraForOperators:
    """A mitra, as operators see them.

    `reachable_at` is when the mitra's last heartbeat within the time of a presence check came; null before the first
    one. `erased_at` is when their personal data was erased.
    """

    id: MitraId
    phone: str
    display_name: str
    is_active: bool
    is_online: bool
    last_heartbeat_at: dt.datetime | None
    reachable_at: dt.datetime | None
    active_session_count: int
    erased_at: dt.datetime | None
    created_at: dt.datetime


async def mitra_for_operator(runtime: Runtime, mitra_id: str) -> MitraForOperators:
    """Return a mitra for an operator. Raises NotFound for an unknown id."""
    rows = many(MitraForOperators, await runtime.db.fetch(MITRA, mitra_id))
    if not rows:
        raise NotFound
    return rows[0]


async def mitras_for_operator(
    runtime: Runtime, page: Page, *, q: str | None, is_active: bool | None, is_online: bool | None
) -> Items:
    """List mitras, newest first. `q` is a part of the name or phone."""
    rows = await runtime.db.fetch(
        MITRAS,
        part_of(q),
        is_active,
        is_online,
        page.before_at,
        page.before_id,
        page.limit + 1,
        [part_of(number) for number in like_numbers(q)],
    )
    return cut(many(MitraForOperators, rows), page, at="created_at")


@attrs.frozen(kw_only=True)
class Sums:
    """What a person's payments came to, and how many chats they had. Amounts are in Rupiah.

    Those of a customer are of their whole account, those of a mitra of the chats that they had. `earned` still has what
    was refunded of it later.
    """

    paid: Count
    earned: Count
    refunded: Count
    chats: Count


async def sums_of_customer(runtime: Runtime, customer_id: str) -> Sums:
    """Return the sums of a customer's account. Raises NotFound."""
    customer = await customer_store.get(runtime.db, customer_id)
    if customer is None:
        raise NotFound
    return await _sums(runtime, customer.account_belongs_to or customer_id)


async def sums_of_mitra(runtime: Runtime, mitra_id: str) -> Sums:
    """Return the sums of a mitra. Raises NotFound."""
    if await mitra_store.get(runtime.db, mitra_id) is None:
        raise NotFound
    return await _sums(runtime, mitra_id)


async def _sums(runtime: Runtime, person_id: str) -> Sums:
    return many(Sums, await runtime.db.fetch(SQL["sums"], person_id))[0]


@attrs.frozen(kw_only=True)
class OperatorForOperators:
    """An operator as other operators see them. Until `locked_until`, sign-ins from some or all addresses are
    refused."""

    id: OperatorId
    email: str
    display_name: str
    role_id: RoleId
    role: str
    disabled: bool
    has_password: bool
    has_totp: bool
    locked_until: dt.datetime | None
    created_at: dt.datetime


@attrs.frozen(kw_only=True)
class EditedOperator(OperatorForOperators):
    """An operator who was added or changed.

    `enrolment_code` is shown only here, for them to set up a second factor within 24 hours. It is null unless they need
    one from now on and have none.
    """

    enrolment_code: str | None = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class RoleView:
    """A role, its permissions, and how many operators have it.

    `require_totp` is the role's own setting. `totp_required`: its operators need a second factor, because of the
    setting or, in production, of the permissions.
    """

    id: RoleId
    name: str
    permissions: Permissions
    require_totp: bool
    totp_required: bool
    operator_count: int
    created_at: dt.datetime


@attrs.frozen(kw_only=True)
class EditedRole(RoleView):
    """A role that was changed.

    `enrolment_codes` are shown only here: one for each operator who needs a second factor from now on and has none.
    """

    enrolment_codes: list[EnrolmentCode] = attrs.field(repr=False)


async def operators(runtime: Runtime, page: Page) -> Items[OperatorForOperators]:
    """List operators, newest first."""
    rows = await runtime.db.fetch(
        OPERATORS,
        runtime.now(),
        locks_by_address(runtime.config),
        page.before_at,
        page.before_id,
        page.limit + 1,
    )
    return cut(many(OperatorForOperators, rows), page, at="created_at")


async def edited_operator(runtime: Runtime, operator_id: str, enrolment_code: str | None) -> EditedOperator:
    """Return an operator who was added or changed, with their enrolment code."""
    found = await operator(runtime, operator_id)
    return EditedOperator(**attrs.asdict(found), enrolment_code=enrolment_code)


async def edited_role(runtime: Runtime, role_id: str, enrolment_codes: list[EnrolmentCode]) -> EditedRole:
    """Return a role that was changed, with the enrolment codes of its operators."""
    found = await role(runtime, role_id)
    return EditedRole(**attrs.asdict(found), enrolment_codes=enrolment_codes)


async def operator(runtime: Runtime, operator_id: str) -> OperatorForOperators:
    """Return one operator.

    Raises NotFound for an unknown id.
    """
    found = await runtime.db.fetch(OPERATOR, runtime.now(), locks_by_address(runtime.config), operator_id)
    rows = many(OperatorForOperators, found)
    if not rows:
        raise NotFound
    return rows[0]


async def roles(runtime: Runtime, page: Page) -> Items[RoleView]:
    """List roles, newest first."""
    rows = await runtime.db.fetch(
        ROLES,
        page.before_at,
        page.before_id,
        page.limit + 1,
    )
    return cut(_role_views(runtime, rows), page, at="created_at")


async def role(runtime: Runtime, role_id: str) -> RoleView:
    """Return one role.

    Raises NotFound for an unknown id.
    """
    rows = _role_views(runtime, await runtime.db.fetch(ROLE, role_id))
    if not rows:
        raise NotFound
    return rows[0]


def _role_views(runtime: Runtime, rows: Iterable[Mapping[str, Any]]) -> list[RoleView]:
    production = runtime.settings.production
    return [
        RoleView(
            **as_dict(row),
            totp_required=requires_totp(row["permissions"], by_role=row["require_totp"], production=production),
        )
        for row in rows
    ]
