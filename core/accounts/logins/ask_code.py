"""Request a sign-in code, as a customer or a mitra (docs/product.md#phone-codes).

A customer's request waits for the provider: the row is stored, and counts, before the code is sent. A mitra's request
does not wait, because its duration must not reveal which numbers belong to mitras. Every number leaves the same row,
and core/accounts/logins/send_code.py handles it later. The limits of requests are those of a phone, of an address, and
of all callers (docs/security.md#limits).
"""

import datetime as dt

import attrs

from core.accounts.customers import store as customers
from core.accounts.logins import codes, otp, send_code
from core.accounts.logins.codes import Stranger
from core.accounts.logins.otp import Hit
from core.accounts.mitras import store as mitras
from core.base import ids, phones, shares
from core.base.actor import Actor, UserType
from core.base.addresses import who_has
from core.base.errors import OtpDeliveryFailed
from core.base.field_types import Id
from core.bus.buckets import Charge, charges_of_address, charges_of_budget, hourly_limit
from core.bus.rate_limit import RateLimited
from core.erasures.rules import phone_mark
from core.events.signals import CodeAsked
from core.providers.otp_sender import NumberRefused, OtpVerifier, SignInCode
from core.runtime.container import Runtime
from core.settings import fixed_codes
from core.settings.fixed_codes import FixedCode
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

log = logs.get("otp")
OF_ACCOUNT = hourly_limit("otp_account", 5)  # requests of a token for unknown phones, above which it proves nothing
OF_NO_MITRA = hourly_limit("otp_unknown_mitras", 1_000)  # all requests for unknown phones, which get no code
TRIES = 10  # requests of an address, for each that may be granted


@attrs.frozen(kw_only=True)
class CodeRequest:
    """The answer to a request for a code."""

    otp_request_id: Id
    expires_at: dt.datetime
    resend_after_seconds: int


async def ask_customer_code(runtime: Runtime, *, phone: str, caller: Actor | None, ip_address: str) -> CodeRequest:
    """Send a code to a customer's phone. `caller` is whose valid token was sent.

    Raises OtpRateLimitPhone, OtpRateLimitIp, OtpCooldown, OtpBudgetExceeded, OtpDeliveryFailed, ValidationFailed,
    RateLimited.
    """
    number = phones.normalise(phone, countries=runtime.settings.otp_countries)
    await _charge_address(runtime, ip_address)
    otp_request_id = ids.new_id()
    fixed = _fixed_code(runtime, number)
    code = fixed.code if fixed else _new_code(runtime)
    async with runtime.transaction() as tx:
        await _check_limits(runtime, tx, number, ip_address)
        stranger = await _check_budget(runtime, tx, number, ip_address, caller)
        asked = await _keep(
            runtime, tx, UserType.CUSTOMER, otp_request_id, number, ip_address, code=code, stranger=stranger
        )
        if fixed:
            await _mark_fixed(runtime, tx, UserType.CUSTOMER, otp_request_id, fixed)
    if fixed:
        return asked
    await _deliver(
        runtime,
        SignInCode(
            phone=number,
            code=code,
            channel=runtime.settings.otp_channel,
            otp_request_id=otp_request_id,
            ttl_seconds=int(otp.LIFETIME.total_seconds()),
        ),
    )
    return asked


async def ask_mitra_code(runtime: Runtime, *, phone: str, ip_address: str) -> CodeRequest:
    """Store a request for a mitra's code. The answer is the same whether or not the number belongs to a mitra.

    Raises OtpRateLimitPhone, OtpRateLimitIp, OtpCooldown, ValidationFailed, RateLimited.
    """
    number = phones.normalise(phone, countries=runtime.settings.otp_countries)
    await _charge_address(runtime, ip_address)
    otp_request_id = ids.new_id()
    async with runtime.transaction() as tx:
        await _check_limits(runtime, tx, number, ip_address)
        await _charge_unknown_mitra(runtime, tx, number, ip_address)
        fixed = _fixed_code(runtime, number)
        asked = await _keep(
            runtime,
            tx,
            UserType.MITRA,
            otp_request_id,
            number,
            ip_address,
            code=fixed.code if fixed else None,
        )
        if fixed:
            await _mark_fixed(runtime, tx, UserType.MITRA, otp_request_id, fixed)
        else:
            tx.emit(CodeAsked(otp_request_id=otp_request_id))
    return asked


def log_test_numbers(runtime: Runtime) -> None:
    """Log how many test numbers have a fixed code, and which codes no longer work because their last day is over."""
    today = runtime.now().date()
    working = [one for one in runtime.settings.otp_test_numbers if one.works_on(today)]
    if working:
        log.warning("test numbers have fixed codes", numbers=len(working))
    for one in runtime.settings.otp_test_numbers:
        if one not in working:
            log.warning(
                "the code of a test number no longer works: remove it from OTP_TEST_NUMBERS",
                account=runtime.keys.account_hash(one.phone),
                last_day=str(one.last_day),
            )


def _fixed_code(runtime: Runtime, number: str) -> FixedCode | None:
    return fixed_codes.find(runtime.settings.otp_test_numbers, number, day=runtime.now().date())


def _new_code(runtime: Runtime) -> str | None:
    """Return a random code, None if the provider makes the code."""
    return None if isinstance(runtime.otp_sender, OtpVerifier) else ids.new_code(otp.CODE_LENGTH)


async def _mark_fixed(runtime: Runtime, tx: Tx, user_type: UserType, otp_request_id: Id, fixed: FixedCode) -> None:
    """Record that a request needs no provider, because its code is fixed."""
    await codes.delivered(tx, otp_request_id, reference=codes.FIXED, number_refused=False)
    metrics.CODES.labels(user_type.value, "test number").inc()
    send_code.show_code(
        runtime,
        SignInCode(
            phone=fixed.phone,
            code=fixed.code,
            channel=codes.FIXED,
            otp_request_id=otp_request_id,
            ttl_seconds=int(otp.LIFETIME.total_seconds()),
        ),
    )
    log.warning(
        "code requested for a test number",
        otp_request_id=otp_request_id,
        user_type=user_type.value,
        account=runtime.keys.account_hash(fixed.phone),
        last_day=str(fixed.last_day),
    )


async def _keep(
    runtime: Runtime,
    tx: Tx,
    user_type: UserType,
    otp_request_id: Id,
    number: str,
    ip_address: str,
    *,
    code: str | None,
    stranger: Stranger | None = None,
) -> CodeRequest:
    """Store a request. Without a code, the provider makes it or, for a mitra, it is made after the commit."""
    tx.count(metrics.OTP_REQUESTED.labels(user_type.value))
    expires_at = tx.now + otp.LIFETIME
    code_hash = None
    if code is not None:
        code_hash = otp.hash_code(key=runtime.keys.codes[0], otp_request_id=otp_request_id, code=code)
    await codes.create(
        tx,
        otp_request_id=otp_request_id,
        phone=number,
        ip_address=who_has(ip_address),
        user_type=user_type.value,
        channel=runtime.settings.otp_channel,
        code_hash=code_hash,
        stranger=stranger,
        send_later=user_type is UserType.MITRA and code is None,
        expires_at=expires_at,
    )
    return CodeRequest(
        otp_request_id=otp_request_id,
        expires_at=expires_at,
        resend_after_seconds=runtime.config.number("otp_resend_cooldown_seconds"),
    )


async def _deliver(runtime: Runtime, code: SignInCode) -> None:
    """Send a customer's code and store the provider's answer, also if there was none. Raises OtpDeliveryFailed."""
    reference, number_refused = None, False
    send_code.show_code(runtime, code)
    try:
        reference = await runtime.otp_sender.send(code)
    except NumberRefused:
        number_refused = True
    finally:
        metrics.CODES.labels("customer", "not sent" if reference is None else "sent").inc()
        async with runtime.transaction() as tx:
            await codes.delivered(tx, code.otp_request_id, reference=reference, number_refused=number_refused)
    if reference is None:
        raise OtpDeliveryFailed


async def _charge_address(runtime: Runtime, ip_address: str) -> None:
    """Count a request of an address, also one that is refused, so that lists of numbers can't be tested."""
    most = TRIES * max(1, runtime.config.number("otp_max_per_ip_per_hour"))
    await runtime.charge(charges_of_address(hourly_limit("otp_tries", most), ip_address))


async def _check_limits(runtime: Runtime, tx: Tx, number: str, ip_address: str) -> None:
    """Check the limits of a phone and of an address. Raises OtpRateLimitPhone, OtpRateLimitIp, OtpCooldown."""
    config, address = runtime.config, who_has(ip_address)
    limits = otp.Limits(
        per_phone=config.number("otp_max_per_phone_per_hour"),
        per_ip=config.number("otp_max_per_ip_per_hour"),
        cooldown=config.seconds("otp_resend_cooldown_seconds"),
    )
    await codes.lock_limits(tx, phone=number, ip_address=address)
    in_flight = dt.timedelta(seconds=codes.IN_FLIGHT_S) * runtime.clock.scale
    asked = await codes.asked(
        tx,
        phones=[number, *(phone_mark(key, phone=number) for key in runtime.settings.erasure_hash_keys)],
        ip_address=address,
        since=tx.now - otp.WINDOW,
        in_flight_since=tx.now - in_flight,
    )
    _refuse(otp.hit_by(asked, limits, now=tx.now))


async def _check_budget(
    runtime: Runtime, tx: Tx, number: str, ip_address: str, caller: Actor | None
) -> Stranger | None:
    """Check the budget of the whole service, which never refuses a caller with a known phone or a valid token.

    Return a caller without either. This comes last, because the budget's lock is held until the commit.
    """
    if await _has_account(tx, number) or await _proves_itself(runtime, caller):
        return None
    stranger = _stranger_at(ip_address)
    if limit := runtime.config.number("otp_max_per_hour"):
        full, share_full = await codes.budget_full(tx, limit=limit, stranger=stranger, since=tx.now - otp.WINDOW)
        _refuse(otp.hit_by_budget(full, share_full, now=tx.now))
    return stranger


async def _charge_unknown_mitra(runtime: Runtime, tx: Tx, number: str, ip_address: str) -> None:
    """Count a mitra's request for a phone without an account, which gets no code. Raises RateLimited."""
    if not await _has_account(tx, number):
        await runtime.charge(*charges_of_budget(OF_NO_MITRA, ip_address))


async def _has_account(tx: Tx, number: str) -> bool:
    """Return whether a customer or a mitra has a phone: which of them, a refusal must not reveal."""
    return await customers.with_phone(tx, number) is not None or await mitras.by_phone(tx, number) is not None


async def _proves_itself(runtime: Runtime, caller: Actor | None) -> bool:
    """Return whether a token makes its caller known. Anonymous accounts are free, so each does for few requests."""
    if caller is None:
        return False
    try:
        await runtime.charge((Charge(OF_ACCOUNT, caller.user_id),))
    except RateLimited:
        return False
    return True


def _stranger_at(ip_address: str) -> Stranger:
    network = shares.network_of(ip_address)
    return Stranger(network=network.name, part=network.part)


def _refuse(hit: Hit | None) -> None:
    if hit is not None:
        metrics.LIMITED.labels(hit.limit).inc()
        raise hit.refusal(retry_after_seconds=hit.retry_after_seconds)
