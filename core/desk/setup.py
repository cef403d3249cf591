"""Fill a fresh database: configuration, prices, a first administrator, demo users. Safe to repeat."""

import datetime as dt
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import attrs

from core.accounts.customers import store as customers
from core.accounts.logins import store as logins
from core.accounts.mitras import store as mitras
from core.accounts.operators import lockout, roles, second_factor
from core.accounts.operators import store as operators
from core.accounts.operators.rules import ADMINISTRATOR
from core.base import field_messages, ids, names
from core.base.actor import Actor
from core.base.errors import NotFound, ValidationFailed
from core.base.languages import Text
from core.config import store as config_store
from core.payments.failures import store as failures
from core.payments.pricing import rules as pricing_rules
from core.payments.pricing import store as pricing
from core.payments.pricing.rules import Promotion
from core.runtime.container import Runtime
from core.security import passwords
from core.sessions import transitions
from core.storage.transaction import Tx


@attrs.frozen(kw_only=True)
class TierSeed:
    """A tier to add."""

    mode: str
    minutes: int
    price_idr: int
    tag: str | None = None


PROMOTION = Promotion(enabled=True, price_idr=2000, gimmick_price_idr=12000, duration_minutes=12, modes=["chat"])
TIERS = (
    TierSeed(mode="chat", minutes=12, price_idr=12000),
    TierSeed(mode="chat", minutes=30, price_idr=27000),
    TierSeed(mode="chat", minutes=60, price_idr=48000),
    TierSeed(mode="call", minutes=12, price_idr=18000),
    TierSeed(mode="call", minutes=30, price_idr=40000),
    TierSeed(mode="call", minutes=60, price_idr=72000),
)
DEMO_MITRAS = (("+6281200000001", "Ayu"), ("+6281200000002", "Bima"), ("+6281200000003", "Citra"))
DEMO_CUSTOMERS = ("Dewi", "Eka")


async def seed_defaults(runtime: Runtime, values: Mapping[str, Any] = MappingProxyType({})) -> int:
    """Add missing configuration rows, cause tags and the administrator role; return how many configuration rows were
    added.

    A new row has its value in `values`, else its default.
    """
    async with runtime.transaction() as tx:
        await roles.ensure(tx, "administrator", ADMINISTRATOR)
        await failures.seed_causes(tx)
        return await config_store.seed(tx, values)


async def seed_prices(runtime: Runtime, tiers: tuple[TierSeed, ...], promotion: Promotion | None) -> list[str]:
    """Add missing tiers and the promotion; return a line of text for each one added. Existing ones are not changed.

    Raises ValidationFailed for values that an operator could not set either.
    """
    for n, tier in enumerate(tiers, start=1):
        pricing_rules.check_tier(**attrs.asdict(tier), where=f"tiers, number {n}: ")
    if promotion is not None:
        pricing_rules.check_promotion(promotion, "first_session_discount: ")
    added = []
    async with runtime.transaction() as tx:
        for order, tier in enumerate(tiers):
            made = await pricing.seed_tier(
                tx,
                mode=tier.mode,
                minutes=tier.minutes,
                price_idr=tier.price_idr,
                tag=pricing_rules.checked_tag(tier.tag),
                sort_order=order,
            )
            if made:
                added.append(f"{tier.mode} {tier.minutes} min: Rp {tier.price_idr:,}".replace(",", "."))
        if promotion is not None and await pricing.seed_promotion(tx, promotion):
            added.append(f"first-session discount: Rp {promotion.price_idr:,}".replace(",", "."))
    return added


async def seed_demo(runtime: Runtime) -> list[str]:
    """Add a few mitras and customers for development; return a line of text for each one added."""
    async with runtime.transaction() as tx:
        added = await _add_mitras(tx, DEMO_MITRAS)
        if added:
            for name in DEMO_CUSTOMERS:
                customer = await customers.create_anonymous(tx, ids.new_id())
                await customers.set_display_name(tx, customer.id, name)
                added.append(f"customer {name}, {customer.id}")
    return added


async def seed_mitras(runtime: Runtime, people: Iterable[tuple[str, str]]) -> None:
    """Add the mitras, (phone, name), whose phones no other mitra has."""
    async with runtime.transaction() as tx:
        await _add_mitras(tx, people)


async def _add_mitras(tx: Tx, people: Iterable[tuple[str, str]]) -> list[str]:
    """Add mitras; return a line of text for each one added."""
    return [
        f"mitra {name}, {phone}"
        for phone, name in people
        if await mitras.create(tx, phone=phone, display_name=name, is_active=True)
    ]


@attrs.frozen(kw_only=True)
class NewOperator:
    """A new operator, with an enrolment code if their role requires a second factor."""

    id: str
    enrolment_code: str | None = attrs.field(repr=False)


async def create_operator(
    runtime: Runtime, *, email: str, display_name: str, role: str, password: str
) -> NewOperator | None:
    """Add an operator with an existing role. Return None if the e-mail is taken.

    Raises ValidationFailed for an invalid e-mail, name or password, and LookupError for an unknown role.
    """
    email = email.strip()
    if not 3 <= len(email) <= 255 or "@" not in email or "\0" in email:
        raise ValidationFailed.of(
            "email",
            field_messages.EMAIL,
        )
    display_name = names.checked(display_name)
    passwords.check_new(password)
    hashed = await runtime.passwords.make(password)
    async with runtime.transaction() as tx:
        role_id = await roles.by_name(tx, role)
        if role_id is None:
            raise LookupError(role)
        operator_id = await operators.create(
            tx,
            email=email,
            display_name=display_name,
            role_id=role_id,
            password_hash=hashed,
            password_change_due=runtime.settings.initial_passwords_due,
        )
        operator = None if operator_id is None else await operators.get(tx, operator_id)
        if operator is None:
            return None
        return NewOperator(
            id=operator.id, enrolment_code=await second_factor.give_code_if_required(runtime, tx, operator)
        )


async def reset_totp(runtime: Runtime, *, email: str) -> str | None:
    """Remove an operator's second factor and sign them out everywhere.

    Returns a new enrolment code if their role requires a second factor, else None. Raises LookupError if no operator
    has this e-mail.
    """
    async with runtime.transaction() as tx:
        found = await operators.by_email(tx, email)
        if found is None:
            raise LookupError(email)
        await logins.lock_all(tx, found.id)
        operator = await operators.lock(tx, found.id)
        assert operator is not None
        code = await second_factor.reset(runtime, tx, operator)
        # The command runs without an operator, so the audit row names the operator it is about.
        await operators.audit(
            tx, operator.id, "operator.totp_reset", "operator", operator.id, after={"by": "sesi operator reset-totp"}
        )
    return code


async def unlock_operator(runtime: Runtime, *, email: str) -> bool:
    """End the lockouts of an e-mail, also at single addresses. Return whether an operator has it.

    Raises LookupError if no operator has it and it is not locked either.
    """
    email = email.strip()
    async with runtime.transaction() as tx:
        operator = await operators.lock_by_email(tx, email)
        if operator is None and not await lockout.is_unknown_locked(tx, email, now=tx.now):
            raise LookupError(email)
        await lockout.forgive(tx, email)
        if operator is None:
            return False
        await operators.audit(
            tx, operator.id, "operator.unlocked", "operator", operator.id, after={"by": "sesi operator unlock"}
        )
    return True


async def first_administrator(runtime: Runtime) -> tuple[str, str] | None:
    """Add an administrator unless there is an operator already.

    Returns (e-mail, password), to be shown once, or None.
    """
    email, password = "admin@sesi.local", ids.new_password()
    if await operators.any_operator(runtime.db):
        return None
    made = await create_operator(
        runtime, email=email, display_name="Administrator", role="administrator", password=password
    )
    return (email, password) if made else None


LASTED = dt.timedelta(minutes=12)
EARLIEST_END = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


async def seed_history_session(
    runtime: Runtime,
    actor: Actor,
    *,
    customer_id: str,
    mitra_id: str,
    ended_at: dt.datetime | None,
    topics: list[str] | None,
) -> str:
    """Insert a past session without a payment, so that returning customers can be tried; return its id.

    Development only. Raises NotFound, ValidationFailed.
    """
    async with runtime.transaction() as tx:
        if await customers.get(tx, customer_id) is None or await mitras.get(tx, mitra_id) is None:
            raise NotFound
        end = ended_at or tx.now
        if not EARLIEST_END <= end <= tx.now:
            raise ValidationFailed.of(
                "ended_at",
                Text(en="must be between the year 2000 and now", id="harus antara tahun 2000 dan sekarang"),
            )
        session_id = ids.new_id()
        await transitions.create_completed(
            tx,
            session_id,
            customer_id=customer_id,
            mitra_id=mitra_id,
            began_at=end - LASTED,
            ended_at=end,
            topics=topics,
        )
        await operators.audit(
            tx,
            actor.user_id,
            "session.seeded",
            "chat_session",
            session_id,
            after={"customer_id": customer_id, "mitra_id": mitra_id},
        )
    return session_id
