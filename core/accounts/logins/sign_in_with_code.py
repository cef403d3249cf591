"""Sign in a customer or a mitra with a code (docs/product.md#phone-codes)."""

from typing import Any

from core.accounts.customers import sign_in as customer_sign_in
from core.accounts.customers.rules import Identity, IdentityKind
from core.accounts.customers.store import Customer
from core.accounts.logins import check_code, failed_sign_ins, repeated_sign_ins, tokens
from core.accounts.logins.otp import OtpAttemptsExceeded, OtpExpired, OtpInvalid
from core.accounts.logins.tokens import Opening
from core.accounts.mitras import store as mitras
from core.accounts.mitras.store import Mitra
from core.base.actor import Actor, UserType
from core.idempotency.rules import KeyedRequest
from core.runtime.container import Runtime
from core.security.access import Tokens
from core.storage.transaction import Tx


async def _active_mitra(tx: Tx, phone: str) -> Mitra | None:
    mitra = await mitras.by_phone(tx, phone)
    return mitra if mitra is not None and mitra.is_active else None


async def verify_mitra(
    runtime: Runtime, *, otp_request_id: str, code: str, device: dict[str, Any], ip_address: str
) -> tuple[Tokens, Mitra]:
    """Sign a mitra in. Return (tokens, mitra).

    Raises OtpInvalid, OtpExpired, OtpAttemptsExceeded, Unavailable.
    """

    async def sign_in(tx: Tx, phone: str) -> tuple[Tokens, Mitra] | None:
        mitra = await _active_mitra(tx, phone)
        if mitra is None:
            return None
        await mitras.hold_logins(tx, mitra.id)
        # During the wait for the lock the mitra may have been deactivated or their number changed.
        mitra = await _active_mitra(tx, phone)
        if mitra is None:
            return None
        return await tokens.issue(runtime, tx, user_type=UserType.MITRA, user_id=mitra.id, device=device), mitra

    with failed_sign_ins.noted(runtime, way="mitra code", address=ip_address) as attempt:
        return await check_code.verify(runtime, UserType.MITRA, otp_request_id, code, sign_in, attempt)


async def verify_customer(
    runtime: Runtime,
    *,
    otp_request_id: str,
    code: str,
    caller: Actor | None,
    keyed: KeyedRequest | None,
    device: dict[str, Any],
    ip_address: str,
) -> tuple[Tokens, Customer]:
    """Sign a customer in: upgraded, joined, created or known. Return (tokens, customer).

    A repeat of the `keyed` request of an anonymous customer within five minutes gets the same tokens. Raises
    OtpInvalid, OtpExpired, OtpAttemptsExceeded, RateLimited, Unavailable.
    """

    async def sign_in(tx: Tx, phone: str) -> tuple[Tokens, Customer]:
        identity = Identity(kind=IdentityKind.PHONE, value=phone)
        opening = None if keyed is None else Opening(secret=secrets[0])
        return await customer_sign_in.sign_in(
            runtime, tx, identity=identity, caller=caller, device=device, opening=opening, keyed=keyed
        )

    secrets = [] if keyed is None else [repeated_sign_ins.secret_of(keyed, key=k) for k in runtime.keys.keyed_sign_ins]
    with failed_sign_ins.noted(runtime, way="customer code", address=ip_address) as attempt:
        again = await repeated_sign_ins.find(runtime, keyed, secrets)
        if again is not None:
            return again
        try:
            return await check_code.verify(runtime, UserType.CUSTOMER, otp_request_id, code, sign_in, attempt)
        except (OtpInvalid, OtpExpired, OtpAttemptsExceeded):
            # The first request may have used the code while this one waited for the code's lock.
            again = await repeated_sign_ins.find(runtime, keyed, secrets)
            if again is None:
                raise
            return again
