"""Signing in and out: anonymous customers, mitras by code, refresh, logout (contract 3)."""

from typing import Any

import attrs
from litestar import Request, get, post

from api.auth import anyone, client_ip, device_of, parties
from api.bodies import Body, Id, text
from api.wire import token_answer
from core.base.actor import Actor, UserType
from core.flows import login_anonymous, login_otp, login_tokens
from core.logins.otp import CODE_LENGTH
from core.reads import people
from core.runtime import Runtime


@attrs.frozen(kw_only=True)
class RefreshBody:
    """A refresh token."""

    refresh_token: str = text(1, 400)


@attrs.frozen(kw_only=True)
class PhoneBody:
    """A phone number, in any usual spelling."""

    phone: str = text(3, 40)


@attrs.frozen(kw_only=True)
class CodeBody:
    """A code for a request."""

    otp_request_id: Id
    code: str = text(CODE_LENGTH, CODE_LENGTH)


@post("/api/shared/auth/anonymous", status_code=201, **anyone())
async def sign_in_anonymously(request: Request[Any, Any, Any], runtime: Runtime) -> dict[str, Any]:
    """A new anonymous customer."""
    tokens, customer = await login_anonymous.sign_in_anonymously(runtime, device=device_of(request))
    return token_answer(tokens, customer=people.customer_view(customer))


@post("/api/shared/auth/refresh", status_code=200, dto=Body[RefreshBody], return_dto=None, **anyone())
async def refresh(data: RefreshBody, runtime: Runtime) -> dict[str, Any]:
    """New tokens for a refresh token."""
    fresh = await login_tokens.refresh_tokens(runtime, refresh_token=data.refresh_token, operators=False)
    if fresh.user_type is UserType.MITRA:
        return token_answer(fresh.tokens, mitra=await people.mitra_me(runtime, fresh.user_id))
    return token_answer(fresh.tokens, customer=await people.customer_me(runtime, fresh.user_id))


@post("/api/shared/auth/logout", status_code=204, **parties())
async def log_out(runtime: Runtime, actor: Actor) -> None:
    """End this device's auth session."""
    await login_tokens.log_out(runtime, actor)


@post("/api/mitra/auth/otp/request", status_code=201, dto=Body[PhoneBody], return_dto=None, **anyone())
async def ask_mitra_code(data: PhoneBody, request: Request[Any, Any, Any], runtime: Runtime) -> login_otp.Asked:
    """Send a code to a mitra."""
    return await login_otp.ask_code(runtime, phone=data.phone, ip_address=client_ip(request))


@post("/api/mitra/auth/otp/verify", status_code=200, dto=Body[CodeBody], return_dto=None, **anyone())
async def verify_mitra_code(data: CodeBody, request: Request[Any, Any, Any], runtime: Runtime) -> dict[str, Any]:
    """Sign a mitra in."""
    tokens, mitra = await login_otp.verify_code(
        runtime, otp_request_id=data.otp_request_id, code=data.code, device=device_of(request)
    )
    return token_answer(tokens, mitra=await people.mitra_me(runtime, mitra.id))


@get("/api/shared/config/otp", **anyone())
async def otp_config(runtime: Runtime) -> dict[str, int]:
    """What clients need to show of the limits."""
    config = runtime.config
    return {
        "resend_cooldown_seconds": config.number("otp_resend_cooldown_seconds"),
        "max_per_phone_per_hour": config.number("otp_max_per_phone_per_hour"),
        "verify_max_attempts": config.number("otp_verify_max_attempts"),
        "code_length": CODE_LENGTH,
    }


ROUTES = [sign_in_anonymously, refresh, log_out, ask_mitra_code, verify_mitra_code, otp_config]
