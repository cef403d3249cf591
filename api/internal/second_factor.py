"""Routes for the second factor of operators (docs/product.md#second-factor): set-up, removal, sign-in and step-up."""

from typing import Any

import attrs
from litestar import Request, delete, post

from api.auth import INTERNAL, anyone, client_ip, device_of, operators
from api.parameters import path_id
from api.request_bodies import Body, operator_code, text
from api.shared_answers import OperatorTokens, operator_tokens
from core.accounts.operators import manage_second_factor
from core.accounts.operators import sign_in as operator_sign_in
from core.accounts.operators.login_token import LoginTokenInvalid
from core.accounts.operators.rules import AccountLocked, LoginInvalid
from core.accounts.operators.totp import (
    STEPPED_UP_FOR,
    TotpInvalid,
    TotpNotBegun,
    TotpNotEnrolled,
    TotpRequired,
    TotpRequiredByRole,
)
from core.base.actor import Actor
from core.base.errors import ValidationFailed
from core.base.languages import Text
from core.desk import people
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class BeginBody:
    """The caller's password and, where needed, a code: of the present second factor, or the enrolment code."""

    password: str = text(1, 1024, repr=False)
    code: str | None = operator_code(letters=True, optional=True)


@attrs.frozen(kw_only=True)
class ConfirmBody:
    """A six-digit code of the authenticator."""

    code: str = operator_code(letters=False)


@attrs.frozen(kw_only=True)
class CodeBody:
    """A six-digit code of the authenticator, or a recovery code."""

    code: str = operator_code(letters=True)


@attrs.frozen(kw_only=True)
class RemoveBody:
    """The caller's password, and a code of the second factor or a recovery code."""

    password: str = text(1, 1024, repr=False)
    code: str = operator_code(letters=True)


@attrs.frozen(kw_only=True)
class VerifyBody:
    """The login token, and either a code of the authenticator or a recovery code."""

    login_token: str = text(1, 1024, repr=False)
    code: str | None = operator_code(letters=False, optional=True)
    recovery_code: str | None = operator_code(letters=True, optional=True)


@attrs.frozen(kw_only=True)
class Enrolment:
    """A secret that becomes the second factor when its first code is confirmed. Show `otpauth_uri` as a QR code."""

    secret: str = attrs.field(repr=False)
    otpauth_uri: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class RecoveryCodes:
    """Ten codes that each complete one sign-in. They are not shown again."""

    recovery_codes: list[str] = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class StepUp:
    """How many seconds of real time this sign-in may do what needs a fresh code."""

    expires_in: int


@attrs.frozen(kw_only=True)
class Reset:
    """The operator, now without a second factor. If they need one, `enrolment_code` is set; it is not shown again."""

    operator: people.OperatorForOperators
    enrolment_code: str | None = attrs.field(repr=False)


@post(
    "/internal/auth/totp/begin",
    status_code=200,
    dto=Body[BeginBody],
    return_dto=None,
    **operators(None, "write", LoginInvalid, TotpInvalid, AccountLocked, enrolling=True),
)
async def begin(data: BeginBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor) -> Enrolment:
    """Begin to set up your second factor, or to replace it.

    The answer has the secret for the authenticator. The second factor changes when you confirm a code of it.
    """
    made = await manage_second_factor.begin(
        runtime, actor, password=data.password, code=data.code, ip_address=client_ip(request)
    )
    return Enrolment(secret=made.secret, otpauth_uri=made.otpauth_uri)


@post(
    "/internal/auth/totp/confirm",
    status_code=200,
    dto=Body[ConfirmBody],
    return_dto=None,
    **operators(None, "write", TotpInvalid, TotpNotBegun, AccountLocked, enrolling=True),
)
async def confirm(data: ConfirmBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor) -> RecoveryCodes:
    """Confirm the new second factor with a code.

    Your other devices are signed out.
    """
    codes = await manage_second_factor.confirm(runtime, actor, code=data.code, ip_address=client_ip(request))
    return RecoveryCodes(recovery_codes=codes)


@delete(
    "/internal/auth/totp",
    status_code=200,
    dto=Body[RemoveBody],
    return_dto=None,
    **operators(None, "write", LoginInvalid, TotpInvalid, AccountLocked, TotpNotEnrolled, TotpRequiredByRole),
)
async def remove(
    data: RemoveBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> people.OperatorView:
    """Remove your second factor.

    Your other devices are signed out.
    """
    await manage_second_factor.remove(
        runtime, actor, password=data.password, code=data.code, ip_address=client_ip(request)
    )
    return await people.operator_me(runtime, actor.user_id)


@post(
    "/internal/auth/totp/verify",
    status_code=200,
    dto=Body[VerifyBody],
    return_dto=None,
    **anyone(LoginTokenInvalid, TotpInvalid, AccountLocked, listeners=INTERNAL),
)
async def verify(data: VerifyBody, request: Request[Any, Any, Any], runtime: Runtime) -> OperatorTokens:
    """Complete a sign-in with a code."""
    if (data.code is None) == (data.recovery_code is None):
        raise ValidationFailed.of(
            "code", Text(en="either code or recovery_code is required", id="code atau recovery_code wajib diisi")
        )
    tokens, operator = await operator_sign_in.verify_second_factor(
        runtime,
        token=data.login_token,
        code=data.code,
        recovery_code=data.recovery_code,
        device=device_of(request),
        ip_address=client_ip(request),
    )
    return operator_tokens(tokens, people.operator_view(runtime, operator))


@post(
    "/internal/auth/step-up",
    status_code=200,
    dto=Body[CodeBody],
    return_dto=None,
    **operators(None, "write", TotpInvalid, AccountLocked, TotpNotEnrolled),
)
async def step_up(data: CodeBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor) -> StepUp:
    """Enter a fresh code of the second factor.

    For 5 minutes this sign-in may then confirm payments, refund, and change operators and roles.
    """
    await manage_second_factor.step_up(runtime, actor, code=data.code, ip_address=client_ip(request))
    return StepUp(expires_in=int(STEPPED_UP_FOR.total_seconds()))


@post(
    "/internal/operators/{operator_id:str}/reset-totp",
    status_code=200,
    **operators("operators", "write", TotpRequired, step_up=True),
)
async def reset(operator_id: str, runtime: Runtime, actor: Actor) -> Reset:
    """Remove another operator's second factor.

    They are signed out. You need a second factor yourself.
    """
    found = path_id(operator_id)
    code = await manage_second_factor.reset(runtime, actor, operator_id=found)
    return Reset(operator=await people.operator(runtime, found), enrolment_code=code)


ROUTES = [begin, confirm, remove, verify, step_up, reset]
