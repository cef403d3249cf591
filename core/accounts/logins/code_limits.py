"""The limits of requests for codes: of a phone, of an address, and of all callers (docs/security.md#limits)."""

import datetime as dt

from core.accounts.customers import store as customers
from core.accounts.logins import codes, otp
from core.accounts.logins.codes import Stranger
from core.accounts.logins.otp import Hit
from core.accounts.mitras import store as mitras
from core.base import shares
from core.base.actor import Actor
from core.base.addresses import who_has
from core.bus.buckets import Charge, charges_of_address, charges_of_budget, hourly_limit
from core.bus.rate_limit import RateLimited
from core.erasures.rules import phone_mark
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import metrics

OF_ACCOUNT = hourly_limit("otp_account", 5)  # requests of a token for unknown phones, above which it proves nothing
OF_NO_MITRA = hourly_limit("otp_unknown_mitras", 1_000)  # all requests for unknown phones, which get no code
TRIES = 10  # requests of an address, for each that may be granted


async def charge_address(runtime: Runtime, ip_address: str) -> None:
    """Count a request of an address, also one that is refused, so that lists of numbers can't be tested."""
    most = TRIES * max(1, runtime.config.number("otp_max_per_ip_per_hour"))
    await runtime.charge(charges_of_address(hourly_limit("otp_tries", most), ip_address))


async def check(runtime: Runtime, tx: Tx, number: str, ip_address: str) -> None:
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


async def check_budget(runtime: Runtime, tx: Tx, number: str, ip_address: str, caller: Actor | None) -> Stranger | None:
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


async def charge_unknown_mitra(runtime: Runtime, tx: Tx, number: str, ip_address: str) -> None:
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
