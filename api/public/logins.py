"""Routes for signing in and out: anonymous customers, phone codes, identity providers, refresh, logout
(docs/protocol.md#sign-in)."""

from typing import Any

import attrs
from litestar import Request, get, post

from api.auth import anyone, client_ip, device_of, locale_of, optional_actor, parties
from api.idempotency import key_of_sign_in
from api.request_bodies import Body, optional_text, phone_code, text
from api.shared_answers import CustomerTokens, MitraTokens, customer_tokens, mitra_tokens
from core.accounts.customers.rules import Provider as ProviderName
from core.accounts.logins import ask_code, sign_in_anonymous, sign_in_with_code, sign_in_with_identity
from core.accounts.logins import devices as login_devices
from core.accounts.logins.ask_code import CodeRequest
from core.accounts.logins.otp import (
    OtpAttemptsExceeded,
    OtpBudgetExceeded,
    OtpCooldown,
    OtpExpired,
    OtpInvalid,
    OtpRateLimitIp,
    OtpRateLimitPhone,
)
from core.base.actor import Actor, UserType
from core.base.errors import OtpDeliveryFailed
from core.base.field_types import Id
from core.desk import people
from core.runtime.container import Runtime
from core.security.identity import IdentityTokenInvalid, ProviderDisabled
from core.security.refresh import RefreshInvalid

ASKING = (OtpRateLimitPhone, OtpRateLimitIp, OtpCooldown)
VERIFYING = (OtpInvalid, OtpExpired, OtpAttemptsExceeded)
DEVICE = ("X-Locale", "X-Platform", "X-App-Version")  # headers of a sign-in, which the list of devices shows


@attrs.frozen(kw_only=True)
class RefreshBody:
    """A refresh token."""

    refresh_token: str = text(1, 400, repr=False)


@attrs.frozen(kw_only=True)
class PhoneBody:
    """A phone number, in any common notation."""

    phone: str = text(3, 40)


@attrs.frozen(kw_only=True)
class CodeBody:
    """The code that was sent for `otp_request_id`."""

    otp_request_id: Id
    code: str = phone_code()


@attrs.frozen(kw_only=True)
class IdentityBody:
    """A provider's signed identity token, and the nonce with which the app requested it."""

    identity_token: str = text(1, 16_000, repr=False)
    nonce: str | None = optional_text(1, 500)


@attrs.frozen(kw_only=True)
class Provider:
    """Whether an identity provider can be used."""

    enabled: bool


@attrs.frozen(kw_only=True)
class Providers:
    """Which identity providers can be used."""

    identity_a: Provider
    identity_b: Provider


@get("/api/shared/auth-providers", **anyone())
async def auth_providers(runtime: Runtime) -> Providers:
    """Return which identity providers can be used.

    Apps read this at a cold start.
    """
    configured = runtime.identity_providers
    return Providers(identity_a=Provider(enabled="a" in configured), identity_b=Provider(enabled="b" in configured))


@post("/api/shared/auth/anonymous", status_code=201, headers=DEVICE, **anyone())
async def sign_in_anonymously(request: Request[Any, Any, Any], runtime: Runtime) -> CustomerTokens:
    """Sign in as a new anonymous customer."""
    tokens, customer = await sign_in_anonymous.sign_in_anonymously(
        runtime, device=device_of(request), ip_address=client_ip(request)
    )
    return customer_tokens(tokens, people.customer_view(customer))


@post(
    "/api/shared/auth/refresh",
    status_code=200,
    dto=Body[RefreshBody],
    return_dto=None,
    headers=("X-Locale",),
    **anyone(RefreshInvalid),
)
async def refresh(data: RefreshBody, request: Request[Any, Any, Any], runtime: Runtime) -> CustomerTokens | MitraTokens:
    """Get new tokens for a refresh token."""
    fresh = await login_devices.refresh_tokens(
        runtime,
        refresh_token=data.refresh_token,
        operators=False,
        locale=locale_of(request),
        ip_address=client_ip(request),
    )
    if fresh.user_type is UserType.MITRA:
        return mitra_tokens(fresh.tokens, await people.mitra_me(runtime, fresh.user_id))
    return customer_tokens(fresh.tokens, await people.customer_me(runtime, fresh.user_id))


@post("/api/shared/auth/logout", status_code=204, **parties())
async def log_out(runtime: Runtime, actor: Actor) -> None:
    """Sign out on this device."""
    await login_devices.log_out(runtime, actor)


@post(
    "/api/client/auth/otp/request",
    status_code=201,
    dto=Body[PhoneBody],
    return_dto=None,
    **anyone(*ASKING, OtpBudgetExceeded, OtpDeliveryFailed, optional=True),
)
async def ask_customer_code(data: PhoneBody, request: Request[Any, Any, Any], runtime: Runtime) -> CodeRequest:
    """Send a phone code to a customer.

    With a valid token, the budget of the whole service does not refuse the request.
    """
    return await ask_code.ask_customer_code(
        runtime, phone=data.phone, caller=await optional_actor(request), ip_address=client_ip(request)
    )


@post("/api/mitra/auth/otp/request", status_code=201, dto=Body[PhoneBody], return_dto=None, **anyone(*ASKING))
async def ask_mitra_code(data: PhoneBody, request: Request[Any, Any, Any], runtime: Runtime) -> CodeRequest:
    """Send a phone code to a mitra.

    The answer is the same for all numbers, so it does not reveal who is a mitra.
    """
    return await ask_code.ask_mitra_code(runtime, phone=data.phone, ip_address=client_ip(request))


@post(
    "/api/client/auth/otp/verify",
    status_code=200,
    dto=Body[CodeBody],
    return_dto=None,
    headers=DEVICE,
    idempotent=True,
    **anyone(*VERIFYING, optional=True),
)
async def verify_customer_code(data: CodeBody, request: Request[Any, Any, Any], runtime: Runtime) -> CustomerTokens:
    """Sign in as a customer with a phone code.

    With the token of an anonymous customer, that customer becomes verified, or joins the account that has this number.
    """
    tokens, customer = await sign_in_with_code.verify_customer(
        runtime,
        otp_request_id=data.otp_request_id,
        code=data.code,
        caller=await optional_actor(request),
        keyed=key_of_sign_in(request, "otp/verify", data),
        device=device_of(request),
        ip_address=client_ip(request),
    )
    return customer_tokens(tokens, people.customer_view(customer))


@post(
    "/api/mitra/auth/otp/verify",
    status_code=200,
    dto=Body[CodeBody],
    return_dto=None,
    headers=DEVICE,
    **anyone(*VERIFYING),
)
async def verify_mitra_code(data: CodeBody, request: Request[Any, Any, Any], runtime: Runtime) -> MitraTokens:
    """Sign in as a mitra with a phone code."""
    tokens, mitra = await sign_in_with_code.verify_mitra(
        runtime,
        otp_request_id=data.otp_request_id,
        code=data.code,
        device=device_of(request),
        ip_address=client_ip(request),
    )
    return mitra_tokens(tokens, await people.mitra_me(runtime, mitra.id))


BY_IDENTITY: dict[str, Any] = {
    "status_code": 200, "dto": Body[IdentityBody], "return_dto": None, "headers": DEVICE, "idempotent": True,
    **anyone(IdentityTokenInvalid, ProviderDisabled, optional=True),
}  # fmt: skip


async def _by_identity(
    provider: ProviderName, data: IdentityBody, request: Request[Any, Any, Any], runtime: Runtime
) -> CustomerTokens:
    tokens, customer = await sign_in_with_identity.sign_in_by_identity(
        runtime,
        provider=provider,
        identity_token=data.identity_token,
        nonce=data.nonce,
        caller=await optional_actor(request),
        keyed=key_of_sign_in(request, f"identity-{provider}", data),
        device=device_of(request),
        ip_address=client_ip(request),
    )
    return customer_tokens(tokens, people.customer_view(customer))


@post("/api/client/auth/identity-a", **BY_IDENTITY)
async def sign_in_by_identity_a(
    data: IdentityBody, request: Request[Any, Any, Any], runtime: Runtime
) -> CustomerTokens:
    """Sign in as a customer with identity provider A.

    With the token of an anonymous customer, that one becomes verified, or joins the account that has this identity.
    """
    return await _by_identity("a", data, request, runtime)


@post("/api/client/auth/identity-b", **BY_IDENTITY)
async def sign_in_by_identity_b(
    data: IdentityBody, request: Request[Any, Any, Any], runtime: Runtime
) -> CustomerTokens:
    """Sign in as a customer with identity provider B.

    With the token of an anonymous customer, that one becomes verified, or joins the account that has this identity.
    """
    return await _by_identity("b", data, request, runtime)


ROUTES = [
    auth_providers, sign_in_anonymously, refresh, log_out, ask_customer_code, ask_mitra_code, verify_customer_code,
    verify_mitra_code, sign_in_by_identity_a, sign_in_by_identity_b,
]  # fmt: skip
