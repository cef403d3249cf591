"""Operators act on failed pairings, set configuration rows and manage mitras. Each write leaves an audit row."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from core.accounts.customers import block_account
from core.accounts.customers import erasing as customer_erasing
from core.accounts.customers import store as customers
from core.accounts.logins import erasing as login_erasing
from core.accounts.logins import sign_off
from core.accounts.logins import store as logins
from core.accounts.mitras import erasing as mitra_erasing
from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import NumberChanged, StatusReason
from core.accounts.mitras.store import Mitra
from core.accounts.operators import store as operators
from core.accounts.operators.totp import TotpRequired
from core.base import names, phones, shown_texts
from core.base.actor import Actor, UserType
from core.base.clock import as_text
from core.base.errors import DomainError, NotFound, ValidationFailed
from core.base.languages import Text
from core.config import store as config_store
from core.config.keys import KEYS
from core.config.rules import check, with_checked_texts
from core.deliveries.pushes import plan as plan_pushes
from core.desk.simulations import simulate
from core.events.changes import Renaming
from core.events.signals import ConfigChanged
from core.pairing import presence
from core.payments import money
from core.payments.failures import store as failures
from core.payments.failures.causes import SubCause
from core.payments.failures.rules import AlreadyAssigned, OperatorAction
from core.payments.pricing.rules import StaleWrite
from core.payments.refunds import refund
from core.payments.refunds.rules import RefundPending, RefundsDisabled, checked_note
from core.runtime.container import Runtime
from core.sessions import renames
from core.sessions.extensions import extend
from core.sessions.states import HELD
from core.storage.transaction import Tx

LONGEST_SNOOZE = dt.timedelta(days=30)
LONGEST_REASON = 500  # characters of why an operator blocks an account


class PhoneTaken(DomainError):
    """Another mitra already uses this phone number."""

    code = "PHONE_TAKEN"
    message = Text(en="Another mitra already uses this phone number.", id="Mitra lain memakai nomor telepon ini.")
    advice = "Look up the mitra who has this number."


async def act_on_failure(
    runtime: Runtime, actor: Actor, *, failure_id: str, action: OperatorAction, note: str | None
) -> None:
    """Record what was done for the customer, once, with a note for operators.

    Raises NotFound, AlreadyActioned, FailureSuperseded, RefundPending, ValidationFailed.
    """
    words = checked_note("note", note)
    async with runtime.transaction() as tx:
        undecided = await refund.lock_undecided(tx, failure_id, words=words)
        if undecided.refund is not None and undecided.refund.is_open:
            raise RefundPending
        words = undecided.words
        kept = undecided.failure.note if words is None else words
        await failures.act(tx, failure_id, action, operator_id=actor.user_id, note=kept)
        await undecided.record(
            tx,
            actor,
            "failed_pairing.actioned",
            before={"operator_action": None},
            after={"operator_action": action.value} | ({} if words is None else {"note": words}),
        )


async def plan_failure(
    runtime: Runtime, actor: Actor, *, failure_id: str, change: Mapping[str, Any], note: str | None
) -> None:
    """Set who works on a failure (`assigned_to`), or until when it is put aside (`snoozed_until`); None ends either.

    An absent key leaves it unchanged, and so does a `note` that is None. Raises NotFound, AlreadyActioned,
    FailureSuperseded, AlreadyAssigned, ValidationFailed.
    """
    words = checked_note("note", note)
    async with runtime.transaction() as tx:
        failure = await refund.lock_failure(tx, failure_id)
        if words is not None:
            words = (await refund.lock_undecided(tx, failure_id, words=words)).words
        before = {"assigned_to": failure.assigned_to, "snoozed_until": failure.snoozed_until}
        after = {**before, **change}
        if after["assigned_to"] not in (None, failure.assigned_to):
            await _may_assign(tx, holder=failure.assigned_to, to=after["assigned_to"])
        if change.get("snoozed_until") is not None:
            _check_snooze(change["snoozed_until"], now=tx.now)
        await failures.plan(tx, failure_id, **after, note=failure.note if words is None else words)
        # Nothing has changed for the customer, so no event is sent.
        await operators.audit(
            tx,
            actor.user_id,
            "failed_pairing.planned",
            "pairing_failure",
            failure_id,
            before=_as_json(before),
            after=_as_json(after) | ({} if words is None else {"note": words}),
        )


def _as_json(plan: Mapping[str, Any]) -> dict[str, Any]:
    until = plan["snoozed_until"]
    return {"assigned_to": plan["assigned_to"], "snoozed_until": None if until is None else as_text(until)}


async def _may_assign(tx: Tx, *, holder: str | None, to: str) -> None:
    """Check that a failure may be given to an operator. Raises AlreadyAssigned, ValidationFailed."""
    if holder is not None:
        raise AlreadyAssigned
    operator = await operators.get(tx, to)
    if operator is None or operator.disabled:
        raise ValidationFailed.of("assigned_to", Text(en="must be an enabled operator", id="harus operator yang aktif"))


def _check_snooze(until: dt.datetime, *, now: dt.datetime) -> None:
    if not now < until <= now + LONGEST_SNOOZE:
        raise ValidationFailed.of(
            "snoozed_until",
            Text(en="must be within the next 30 days", id="harus dalam 30 hari ke depan"),
        )


@attrs.frozen(kw_only=True)
class RefundOutcome:
    """What became of one of several failures: `refused` is why its refund was not asked for, None if it was."""

    id: str
    refused: DomainError | None


async def refund_failures(
    runtime: Runtime, actor: Actor, *, failure_ids: Sequence[str], reason: str | None
) -> list[RefundOutcome]:
    """Ask for the refund of each failure, in separate transactions. A repeat changes nothing for those under way.

    Raises RefundsDisabled, ValidationFailed.
    """
    outcomes = []
    for failure_id in dict.fromkeys(failure_ids):
        refused = None
        try:
            await refund.request(runtime, actor, failure_id=failure_id, reason=reason)
        except (RefundsDisabled, ValidationFailed):
            raise
        except DomainError as error:
            refused = error
        outcomes.append(RefundOutcome(id=failure_id, refused=refused))
    return outcomes


async def set_config(
    runtime: Runtime,
    actor: Actor,
    values: dict[str, Any],
    *,
    seen: dt.datetime | None = None,
    simulation_id: str | None = None,
) -> None:
    """Set configuration rows, all or none. All processes have the new values within a second.

    With `seen`, the rows must have been changed last at that time. `simulation_id` names the simulation of these values
    whose forecast goes into the audit log. Raises NotFound, StaleWrite, ValidationFailed.
    """
    settings = runtime.settings
    cadence, production = settings.mitra_heartbeat_cadence_seconds, settings.production
    if not values.keys() <= KEYS.keys():
        raise NotFound
    values = {name: with_checked_texts(KEYS[name], value) for name, value in values.items()}
    for name, value in values.items():
        check(KEYS[name], value, cadence_seconds=cadence, production=production)
    async with runtime.transaction() as tx:
        forecast = {} if simulation_id is None else await simulate.forecast_for(tx, simulation_id, values)
        for name, value in sorted(values.items()):  # always lock rows in the same order
            before, changed_at = await config_store.lock(tx, KEYS[name])
            if seen is not None and changed_at != seen:
                current = {"value": before, "updated_at": changed_at and as_text(changed_at)}
                raise StaleWrite(details={"current": current})
            await config_store.write(tx, KEYS[name], value, operator_id=actor.user_id)
            await operators.audit(
                tx,
                actor.user_id,
                config_store.CHANGED,
                "app_config",
                name,
                before={"value": before},
                after={"value": value, **forecast},
            )
            tx.emit(ConfigChanged(key=name))
    await runtime.changes.refresh_config()


def _seen(mitra: Mitra) -> dict[str, Any]:
    return {"phone": mitra.phone, "display_name": mitra.display_name, "is_active": mitra.is_active}


async def add_mitra(runtime: Runtime, actor: Actor, *, phone: str, display_name: str, is_active: bool) -> str:
    """Add a mitra and return the id. Raises ValidationFailed, PhoneTaken."""
    number, name = phones.normalise(phone, countries=runtime.settings.otp_countries), names.checked(display_name)
    async with runtime.transaction() as tx:
        await mitras.hold_phone(tx, number)
        mitra = await mitras.create(tx, phone=number, display_name=name, is_active=is_active)
        if mitra is None:
            raise PhoneTaken
        await operators.audit(tx, actor.user_id, "mitra.created", "mitra", mitra.id, after=_seen(mitra))
    return mitra.id


@attrs.frozen(kw_only=True)
class MitraChange:
    """The new values of a mitra; None leaves a field unchanged."""

    phone: str | None = None
    display_name: str | None = None
    is_active: bool | None = None


async def change_mitra(runtime: Runtime, actor: Actor, *, mitra_id: str, change: MitraChange, stepped_up: bool) -> None:
    """Change a mitra. Deactivating them takes them offline, signs them out and ends their sessions' open extensions.

    A new phone number is a new way to sign in, and the old one may be in other hands: it signs the mitra out, too, and
    needs `stepped_up`, that the operator has entered a code of their second factor lately or has none. The mitra's codes
    for the old number are forgotten, because a later erasure would not find them. Lock order: codes, auth sessions,
    mitras, sessions, payments. Raises NotFound, ValidationFailed, PhoneTaken, TotpRequired.
    """
    countries = runtime.settings.otp_countries
    change = attrs.evolve(
        change,
        phone=None if change.phone is None else phones.normalise(change.phone, countries=countries),
        display_name=None if change.display_name is None else names.checked(change.display_name),
    )
    while True:
        try:
            async with runtime.transaction() as tx:
                await _change_mitra(runtime, tx, actor, mitra_id, change, stepped_up=stepped_up)
            return
        except NumberChanged:
            continue  # each time another operator has changed the number, so this loop ends


async def _change_mitra(
    runtime: Runtime, tx: Tx, actor: Actor, mitra_id: str, change: MitraChange, *, stepped_up: bool
) -> None:
    before = await _lock_with_logins(tx, mitra_id, change)
    has_new_number = change.phone not in (None, before.phone)
    if has_new_number and not stepped_up:
        raise TotpRequired
    if has_new_number:
        assert change.phone is not None
        await login_erasing.forget_codes(runtime, tx, before.phone, only=UserType.MITRA)
        await mitras.hold_phone(tx, change.phone)
    if change.is_active is False or has_new_number:
        # Go offline before the row is changed. A new phone number locks the row's key, which a search that invites
        # the mitra needs while it holds its session; going offline locks that session, so the two could deadlock.
        await _take_leave(runtime, tx, mitra_id, is_deactivated=change.is_active is False)
    renamed = [] if change.display_name in (None, before.display_name) else [mitra_id]
    async with renames.watched(tx, renamed, UserType.MITRA):
        after = await mitras.update(
            tx,
            mitra_id,
            phone=change.phone or before.phone,
            display_name=change.display_name or before.display_name,
            is_active=before.is_active if change.is_active is None else change.is_active,
        )
    if after is None:
        raise PhoneTaken
    await operators.audit(
        tx, actor.user_id, "mitra.changed", "mitra", mitra_id, before=_seen(before), after=_seen(after)
    )


async def _lock_with_logins(tx: Tx, mitra_id: str, change: MitraChange) -> Mitra:
    """Lock a mitra, and the ways in of one who gets a number or is deactivated: their codes, sign-ins and devices.

    Raises NotFound, also for an erased mitra, and NumberChanged.
    """
    found = await mitras.get(tx, mitra_id)
    if found is None:
        raise NotFound
    if change.phone not in (None, found.phone):
        await login_erasing.lock_codes(tx, found.phone)
    await mitras.hold_logins(tx, mitra_id)
    if change.is_active is False or change.phone is not None:
        await logins.lock_all(tx, mitra_id)
    mitra = await mitras.lock(tx, mitra_id)
    if mitra is None or await mitra_erasing.is_erased(tx, mitra_id):
        raise NotFound
    if change.phone is not None and mitra.phone != found.phone:
        raise NumberChanged
    return mitra


async def _take_leave(runtime: Runtime, tx: Tx, mitra_id: str, *, is_deactivated: bool) -> None:
    """Take a mitra offline and sign them out.

    If they are deactivated, tell their devices and the customers of their open extensions. The caller must hold the
    lock of the mitra's row. All sessions that the change needs are locked here, before any payment.
    """
    locked = await presence.lock_sessions(tx, mitra_id)
    reason = StatusReason.DEACTIVATED if is_deactivated else None
    notice = await presence.take_offline(tx, mitra_id, reason, locked=locked)
    if notice is not None:
        await plan_pushes.plan_farewell(runtime, tx, notice)
        for session in locked:  # now, not at `answer_by`
            if session.mitra_id == mitra_id and session.status in HELD:
                await extend.trip(runtime, tx, session, SubCause.MITRA_INACTIVE)
    await sign_off.revoke(tx, user_id=mitra_id)


async def block_customer(
    runtime: Runtime, actor: Actor, *, customer_id: str, reason: str, until: dt.datetime | None
) -> None:
    """Block the account of a customer, in place of an earlier block. Its pending payment requests are abandoned.

    A running chat and a search that is paid go on. `until` is in the future; None: until an operator lifts the block.
    `reason` has 1 to 500 characters. Raises NotFound, ValidationFailed.
    """
    shown_texts.check_text("reason", reason, most=LONGEST_REASON)
    async with runtime.transaction() as tx:
        account, before = await _lock_customer(tx, customer_id)
        if until is not None and until <= tx.now:
            raise ValidationFailed.of("until", Text(en="must be in the future", id="harus di masa depan"))
        await block_account.block(tx, account[0], until=until, reason=reason)
        await money.abandon_all(tx, account)
        after = {"until": until and as_text(until), "reason": reason}
        await operators.audit(tx, actor.user_id, "customer.blocked", "customer", account[0], before=before, after=after)


async def unblock_customer(runtime: Runtime, actor: Actor, *, customer_id: str) -> None:
    """Lift the block of a customer's account; without one nothing changes. Raises NotFound."""
    async with runtime.transaction() as tx:
        account, before = await _lock_customer(tx, customer_id)
        if before is not None:
            await block_account.unblock(tx, account[0])
            await operators.audit(
                tx,
                actor.user_id,
                "customer.unblocked",
                "customer",
                account[0],
                before=before,
                after={"is_blocked": False},
            )


async def rename_customer(runtime: Runtime, actor: Actor, *, customer_id: str, display_name: str) -> None:
    """Correct the name of a customer's account. The mitras of open chats get it. Raises NotFound, ValidationFailed."""
    name = names.checked(display_name)
    async with runtime.transaction() as tx:
        account, _ = await _lock_customer(tx, customer_id)
        async with tx.during(Renaming(party_ids=account, side=UserType.CUSTOMER)):
            await customers.set_display_name(tx, account[0], name)
        after = {"fields": ["display_name"]}
        await operators.audit(tx, actor.user_id, "customer.changed", "customer", account[0], after=after)


async def _lock_customer(tx: Tx, customer_id: str) -> tuple[tuple[str, ...], dict[str, Any] | None]:
    """Lock the account of a customer. Return its ids, its own first, and its block for the audit log, None without one.

    Raises NotFound, also for an erased customer.
    """
    if await customers.get(tx, customer_id) is None:
        raise NotFound
    account = await customers.lock_account(tx, customer_id)
    if await customer_erasing.is_erased(tx, account[0]):  # perhaps while we waited for the lock
        raise NotFound
    present = (await block_account.of_all(tx, [customer_id], now=tx.now)).get(customer_id)
    if present is None:
        return account, None
    return account, {"until": present.until and as_text(present.until), "reason": present.reason}


async def force_offline(runtime: Runtime, actor: Actor, *, mitra_id: str) -> None:
    """Take a mitra offline as an operator. Raises NotFound."""
    async with runtime.transaction() as tx:
        if await mitras.lock(tx, mitra_id) is None:
            raise NotFound
        await presence.take_offline(tx, mitra_id, StatusReason.OPERATOR)
        await operators.audit(tx, actor.user_id, "mitra.forced_offline", "mitra", mitra_id, after={"is_online": False})
