"""Reads of customers, mitras, operators and devices, for themselves and for operators; and who a token's caller is."""

import datetime as dt
from typing import Any

import attrs

from core.base.actor import Actor, UserType
from core.base.errors import Forbidden, NotFound, Unauthenticated
from core.base.field_types import CustomerId, Id, MitraId, OperatorId
from core.base.like_patterns import part_of
from core.base.pages import Items, Page, cut
from core.base.phones import like_numbers
from core.customers import store as customers
from core.customers.store import Customer
from core.logins import store as logins
from core.logins.access import Claims
from core.mitras import store as mitras
from core.operators import store as operators
from core.operators.rules import Permissions, allows
from core.operators.store import Operator
from core.operators.totp import TotpRequired
from core.reads import disclosure
from core.runtime import Runtime
from core.storage.records import as_dict, many
from core.transactions import translate_db_errors


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
class MitraRow:
    """A mitra, as operators see them."""

    id: MitraId
    phone: str
    display_name: str
    is_active: bool
    is_online: bool
    last_heartbeat_at: dt.datetime | None
    active_session_count: int
    created_at: dt.datetime


@attrs.frozen(kw_only=True)
class OperatorView:
    """An operator, as they see themselves.

    `password_change_due`: they must replace a password that another person chose. `totp_required`: their role requires
    a second factor.
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


def operator_view(operator: Operator) -> OperatorView:
    """Return the view of an operator for themselves."""
    return OperatorView(
        id=operator.id,
        email=operator.email,
        display_name=operator.display_name,
        role=operator.role_name,
        permissions=operator.permissions,
        password_change_due=operator.password_change_due,
        totp_enabled=operator.has_totp,
        totp_required=operator.require_totp,
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
    return operator_view(operator)


def _masked(text: str | None) -> str | None:
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
    return attrs.evolve(view, phone=_masked(view.phone), email=_masked(view.email))


@attrs.frozen(kw_only=True)
class DeviceInfo:
    """What the app reported about its device at sign-in."""

    user_agent: str | None = None
    platform: str | None = None
    app_version: str | None = None


@attrs.frozen(kw_only=True)
class Device:
    """A device on which the caller is signed in. `current` is true for the device that sent the request."""

    id: Id
    device_info: DeviceInfo
    created_at: dt.datetime
    last_used_at: dt.datetime | None
    expires_at: dt.datetime
    current: bool


# The devices on which a user is signed in.
DEVICES = """SELECT id, device_info, created_at, last_used_at, expires_at FROM auth_sessions
  WHERE user_type = $1 AND user_id = $2 AND revoked_at IS NULL AND expires_at > $3"""


def _device(row: Any, actor: Actor) -> Device:
    values = as_dict(row)
    info = DeviceInfo(**(values.pop("device_info") or {}))
    return Device(**values, device_info=info, current=values["id"] == actor.auth_session_id)


async def devices(runtime: Runtime, actor: Actor, page: Page) -> Items:
    """List the devices on which the caller is signed in, newest first."""
    with translate_db_errors():
        rows = await runtime.db.fetch(
            f"""{DEVICES} AND ($4::timestamptz IS NULL OR (created_at, id) < ($4, $5::uuid))
                ORDER BY created_at DESC, id DESC LIMIT $6""",
            actor.user_type.value, actor.user_id, runtime.now(), page.before_at, page.before_id, page.limit + 1,
        )  # fmt: skip
    return cut([_device(row, actor) for row in rows], page, at="created_at")


async def device(runtime: Runtime, actor: Actor, auth_session_id: str) -> Device:
    """Return one of the devices on which the caller is signed in.

    Raises NotFound for an unknown id.
    """
    with translate_db_errors():
        row = await runtime.db.fetchrow(
            f"{DEVICES} AND id = $4", actor.user_type.value, actor.user_id, runtime.now(), auth_session_id
        )
    if row is None:
        raise NotFound
    return _device(row, actor)


MITRA_ROWS = """SELECT m.id, m.phone, m.display_name, m.is_active, coalesce(o.is_online, false) AS is_online, o.last_heartbeat_at,
    (SELECT count(*)::int FROM chat_sessions s WHERE s.mitra_id = m.id AND s.status IN ('active', 'expired')) AS active_session_count,
    m.created_at
  FROM mitras m LEFT JOIN mitra_online_status o ON o.mitra_id = m.id"""


async def mitra_for_operator(runtime: Runtime, mitra_id: str) -> MitraRow:
    """Return a mitra for an operator."""
    with translate_db_errors():
        rows = many(MitraRow, await runtime.db.fetch(f"{MITRA_ROWS} WHERE m.id = $1", mitra_id))
    if not rows:
        raise NotFound
    return rows[0]


async def mitras_for_operator(
    runtime: Runtime, page: Page, *, q: str | None, is_active: bool | None, is_online: bool | None
) -> Items:
    """List mitras, newest first. `q` is a part of the name or phone."""
    with translate_db_errors():
        rows = await runtime.db.fetch(
            f"""{MITRA_ROWS} WHERE ($1::text IS NULL OR m.display_name ILIKE $1 OR m.phone LIKE ANY ($7::text[]))
                AND ($2::bool IS NULL OR m.is_active = $2) AND ($3::bool IS NULL OR coalesce(o.is_online, false) = $3)
                AND ($4::timestamptz IS NULL OR (m.created_at, m.id) < ($4, $5::uuid))
                ORDER BY m.created_at DESC, m.id DESC LIMIT $6""",
            part_of(q), is_active, is_online, page.before_at, page.before_id, page.limit + 1,
            [part_of(number) for number in like_numbers(q)],
        )  # fmt: skip
    return cut(many(MitraRow, rows), page, at="created_at")


async def authenticate(runtime: Runtime, token: str, *, audience: str) -> Actor:
    """Return the actor of an access token.

    Raises Unauthenticated if the token is invalid, expired or revoked. Permissions are checked elsewhere.
    """
    claims = runtime.tokens.check(token, audience=audience, now=runtime.now())
    if claims.auth_session_id in runtime.caches.revoked:
        raise Unauthenticated
    operator: Operator | None = None
    if claims.user_type is UserType.OPERATOR:
        with translate_db_errors():
            operator = await operators.get(runtime.db, claims.user_id)
        if operator is None or operator.disabled:
            raise Unauthenticated
    caller_ids = await _ids_of(runtime, claims)
    if claims.auth_session_id in runtime.caches.revoked:  # revoked during the reads above
        raise Unauthenticated
    return Actor(
        user_type=claims.user_type,
        user_id=claims.user_id,
        auth_session_id=claims.auth_session_id,
        expires_at=claims.expires_at,
        ids=caller_ids,
        permissions={} if operator is None else operator.permissions,
        has_totp=operator is not None and operator.has_totp,
        password_change_due=operator is not None and operator.password_change_due,
        must_enrol=operator is not None and operator.must_enrol,
    )


async def require_step_up(runtime: Runtime, actor: Actor) -> None:
    """Check that a caller with a second factor has entered a code within the last 5 minutes of real time.

    Raises TotpRequired if not.
    """
    if not actor.has_totp:
        return
    with translate_db_errors():
        until = await logins.stepped_up_until(runtime.db, actor.auth_session_id)
    if until is None or until <= runtime.clock.real_now():
        raise TotpRequired


async def _ids_of(runtime: Runtime, claims: Claims) -> tuple[str, ...]:
    """Return the caller's ids, cached per auth session."""
    if claims.user_type is not UserType.CUSTOMER:
        return (claims.user_id,)
    known = runtime.caches.accounts.get(claims.user_id, claims.auth_session_id)
    if known is None:
        with translate_db_errors():
            known = await runtime.callers_ids.of(claims.user_id) or (claims.user_id,)
        runtime.caches.accounts.put(claims.user_id, claims.auth_session_id, known)
    return known


def require_kind(actor: Actor, kinds: frozenset[UserType]) -> None:
    """Check that the actor is one of these kinds of user.

    Raises Forbidden if not.
    """
    if actor.user_type not in kinds:
        raise Forbidden
