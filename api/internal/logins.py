"""Routes by which operators sign in and out, change their own password, and see and end their own sign-ins."""

from typing import Any

import attrs
from litestar import Request, delete, get, post

from api.auth import INTERNAL, anyone, client_ip, device_of, operators
from api.parameters import path_id
from api.request_bodies import Body, text
from api.shared_answers import OperatorTokens, SecondFactorQuestion, operator_tokens
from core.accounts.logins import devices as login_devices
from core.accounts.logins import list_devices
from core.accounts.operators import edit as operator_edit
from core.accounts.operators import sign_in as operator_sign_in
from core.accounts.operators.rules import AccountLocked, LoginInvalid
from core.base.actor import Actor
from core.base.pages import Items, read_page
from core.desk import people
from core.runtime.container import Runtime
from core.security.refresh import RefreshInvalid


@attrs.frozen(kw_only=True)
class LoginBody:
    """An operator's e-mail and password."""

    email: str = text(1, 255)
    password: str = text(1, 1024, repr=False)


@attrs.frozen(kw_only=True)
class RefreshBody:
    """A refresh token."""

    refresh_token: str = text(1, 400, repr=False)


@attrs.frozen(kw_only=True)
class PasswordBody:
    """The present password and the new one, which has 12 characters to 72 bytes and is not a common password."""

    current_password: str = text(1, 1024, repr=False)
    new_password: str = text(1, 1024, repr=False)


@post(
    "/internal/auth/login",
    status_code=200,
    dto=Body[LoginBody],
    return_dto=None,
    **anyone(LoginInvalid, AccountLocked, listeners=INTERNAL),
)
async def sign_in(
    data: LoginBody, request: Request[Any, Any, Any], runtime: Runtime
) -> OperatorTokens | SecondFactorQuestion:
    """Sign in as an operator.

    An operator with a second factor gets a `login_token`, which completes the sign-in with a code.
    """
    found = await operator_sign_in.sign_in(
        runtime, email=data.email, password=data.password, device=device_of(request), ip_address=client_ip(request)
    )
    if found.login_token is not None:
        return SecondFactorQuestion(totp_required=True, login_token=found.login_token)
    assert found.tokens is not None
    return operator_tokens(found.tokens, people.operator_view(runtime, found.operator))


@post(
    "/internal/auth/refresh",
    status_code=200,
    dto=Body[RefreshBody],
    return_dto=None,
    **anyone(RefreshInvalid, listeners=INTERNAL),
)
async def refresh(data: RefreshBody, request: Request[Any, Any, Any], runtime: Runtime) -> OperatorTokens:
    """Get new tokens for a refresh token."""
    fresh = await login_devices.refresh_tokens(
        runtime, refresh_token=data.refresh_token, operators=True, ip_address=client_ip(request)
    )
    return operator_tokens(fresh.tokens, await people.operator_me(runtime, fresh.user_id))


@post("/internal/auth/logout", status_code=200, **operators(None, enrolling=True, password_due=True))
async def log_out(runtime: Runtime, actor: Actor) -> people.OperatorView:
    """Sign out on this device.

    The answer is the operator who has signed out.
    """
    operator = await people.operator_me(runtime, actor.user_id)
    await login_devices.log_out(runtime, actor)
    return operator


@get("/internal/auth/me", **operators(None, enrolling=True, password_due=True))
async def me(runtime: Runtime, actor: Actor) -> people.OperatorView:
    """Return the calling operator."""
    return await people.operator_me(runtime, actor.user_id)


@post(
    "/internal/auth/password",
    status_code=200,
    dto=Body[PasswordBody],
    return_dto=None,
    **operators(None, "write", LoginInvalid, AccountLocked, password_due=True),
)
async def change_password(
    data: PasswordBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> people.OperatorView:
    """Change your own password.

    Your other devices are signed out.
    """
    await operator_edit.change_password(
        runtime, actor, current=data.current_password, new=data.new_password, ip_address=client_ip(request)
    )
    return await people.operator_me(runtime, actor.user_id)


@get("/internal/auth/sessions", **operators(None, enrolling=True))
async def sessions(
    runtime: Runtime, actor: Actor, cursor: str | None = None, limit: int | None = None
) -> Items[list_devices.Device]:
    """List your own sign-ins, newest first."""
    return await list_devices.devices(runtime, actor, read_page(cursor, limit))


@delete("/internal/auth/sessions/{auth_session_id:str}", status_code=200, **operators(None, enrolling=True))
async def end_session(auth_session_id: str, runtime: Runtime, actor: Actor) -> list_devices.Device:
    """End one of your own sign-ins.

    Its tokens are refused within a second.
    """
    found = path_id(auth_session_id)
    device = await list_devices.device(runtime, actor, found)
    await login_devices.revoke_device(runtime, actor, auth_session_id=found)
    return device


ROUTES = [change_password, sign_in, refresh, log_out, me, sessions, end_session]
