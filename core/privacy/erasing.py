"""Erase a user's identity and sign them out, in one transaction (docs/privacy.md#erasure).

What takes longer follows in `core/privacy/erase_rest.py`, by the jobs process.
"""

from collections.abc import Sequence

import attrs

from core.accounts.customers import erased_identities
from core.accounts.customers import erasing as customers
from core.accounts.customers import store as customer_store
from core.accounts.customers.rules import Identity, IdentityKind
from core.accounts.logins import erasing as logins
from core.accounts.logins import otp, sign_off
from core.accounts.mitras import erasing as erased_mitras
from core.accounts.mitras import store as mitras
from core.accounts.operators import erasing as operators
from core.accounts.operators import store as operator_store
from core.base.actor import UserType
from core.base.errors import NotFound
from core.deliveries import store as deliveries
from core.deliveries.pushes import store as pushes
from core.erasures import store as erasures
from core.erasures.rules import MitraStillActive, RequestedBy, phone_mark
from core.erasures.store import Erasure
from core.idempotency import store as idempotency
from core.payments import erasing as payments
from core.payments import money
from core.payments import store as payment_store
from core.payments.pricing import store as pricing
from core.payments.rules import SessionInProgress
from core.runtime.container import Runtime
from core.storage.transaction import Tx


@attrs.frozen(kw_only=True)
class Requester:
    """Who asks for an erasure; `operator_id` is set for an operator."""

    by: RequestedBy
    operator_id: str | None = None


class IdentityChanged(Exception):
    """The customer gained an identity while the caller waited for its locks: the caller must start again."""


async def erase_customer(
    runtime: Runtime, tx: Tx, customer_id: str, known: list[Identity], asked: Requester
) -> Erasure:
    """Erase the identity of a customer's account, sign it out, and abandon its pending requests.

    `known` are the identities that the caller has read. A repeated erasure returns the first one. Raises NotFound,
    IdentityChanged, and SessionInProgress for a live session or a confirmed request.
    """
    account_id = await customers.account_of(tx, customer_id)
    rows = await _lock(tx, account_id, known)
    before = await erasures.of_user(tx, account_id)
    if before is not None and await customers.is_erased(tx, account_id):
        return before
    if await customers.identities_of(tx, account_id) != known or await _has_joined(tx, customer_id, account_id):
        raise IdentityChanged
    blocked = await payment_store.blocking(tx, rows, but=None)
    if blocked is not None:
        raise SessionInProgress(details=blocked.details)
    for payment in await payments.lock_pending(tx, rows):
        await money.abandon(tx, payment, by=None)
    await _keep_of_identities(runtime, tx, rows, known)
    await customers.blank(tx, rows)
    await operators.blank_audit_log(tx, rows)
    await _sign_out(tx, account_id, rows)
    return await _begun(tx, UserType.CUSTOMER, account_id, asked)


async def _lock(tx: Tx, account_id: str, known: list[Identity]) -> list[str]:
    """Lock an account with its codes, identities, devices and joined customers. Return the ids of its customers.

    Raises NotFound.
    """
    for one in known:
        if one.kind is IdentityKind.PHONE:
            await logins.lock_codes(tx, one.value)
    for one in known:
        await customer_store.hold_identity(tx, one)
    rows = await customers.rows_of(tx, account_id)
    if not rows:
        raise NotFound
    await logins.lock_devices(tx, rows)
    await customers.lock_rows(tx, account_id, rows)
    return rows


async def _has_joined(tx: Tx, customer_id: str, account_id: str) -> bool:
    """Return whether a customer has joined another account than the one that is locked."""
    return await customers.account_of(tx, customer_id) != account_id


async def _keep_of_identities(runtime: Runtime, tx: Tx, rows: list[str], known: list[Identity]) -> None:
    """Keep what is needed of the identities: hashes if the discount is used up, and marks of codes for their limits."""
    past = await pricing.past_of(tx, rows, but_pending=True)
    if past.ever_paired or await payments.had_discount(tx, rows):
        for one in known:
            await erased_identities.remember(runtime, tx, one)
    for one in known:
        if one.kind is IdentityKind.PHONE:
            await _forget_codes(runtime, tx, one.value)


async def erase_mitra(runtime: Runtime, tx: Tx, mitra_id: str, asked: Requester) -> Erasure:
    """Erase the identity of a deactivated mitra. Their conversations belong to their customers and stay.

    A repeated erasure returns the first one. Raises NotFound, MitraStillActive.
    """
    found = await mitras.get(tx, mitra_id)
    if found is None:
        raise NotFound
    await logins.lock_codes(tx, found.phone)
    await mitras.hold_logins(tx, mitra_id)
    await logins.lock_devices(tx, [mitra_id])
    mitra = await mitras.lock(tx, mitra_id)
    assert mitra is not None
    if mitra.is_active:
        raise MitraStillActive
    before = await erasures.of_user(tx, mitra_id)
    if before is not None and await erased_mitras.is_erased(tx, mitra_id):
        return before
    await _forget_codes(runtime, tx, mitra.phone)
    await operators.blank_audit_log(tx, [mitra_id])
    await _sign_out(tx, mitra_id, [mitra_id])
    await erased_mitras.blank(tx, mitra_id)
    return await _begun(tx, UserType.MITRA, mitra_id, asked)


async def _forget_codes(runtime: Runtime, tx: Tx, phone: str) -> None:
    mark = phone_mark(runtime.settings.erasure_hash_keys[0], phone=phone)
    await logins.forget_codes(tx, phone, mark=mark, window=otp.WINDOW)


async def _sign_out(tx: Tx, user_id: str, rows: Sequence[str]) -> None:
    """Revoke all devices of a user and erase what is stored of them and for them."""
    await sign_off.revoke(tx, user_id=user_id)
    await logins.blank_devices(tx, rows)
    await forget_stored(tx, rows)


async def forget_stored(tx: Tx, rows: Sequence[str]) -> None:
    """Delete events, pushes and idempotent answers that are stored for a user.

    A key that another transaction has locked is left to the sweep.
    """
    await pushes.forget(tx, await logins.devices_of(tx, rows))
    await deliveries.forget_all(tx, rows)
    await idempotency.forget_all(tx, rows)


async def _begun(tx: Tx, user_type: UserType, user_id: str, asked: Requester) -> Erasure:
    if asked.by is not RequestedBy.USER:
        await operator_store.audit(
            tx,
            operator_id=asked.operator_id,
            action=f"{user_type.value}.erased",
            object_type=user_type.value,
            object_id=user_id,
            before=None,
            after=None,
        )
    return await erasures.begin(tx, user_type=user_type.value, user_id=user_id, requested_by=asked.by)
