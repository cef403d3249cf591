"""Routes with which customers take or erase their own data (docs/privacy.md)."""

from typing import Any, Literal

import attrs
from litestar import Request, Response, get, post

from api.auth import client_ip, customers
from api.request_bodies import Body, optional_text, phone_code
from api.shared_answers import export_answer
from core.accounts.logins.callers import RecentSignInRequired, require_recent_sign_in
from core.accounts.logins.otp import OtpAttemptsExceeded, OtpExpired, OtpInvalid
from core.base import field_messages
from core.base.actor import Actor, UserType
from core.base.errors import ValidationFailed
from core.base.field_types import Id, Time
from core.payments.rules import SessionInProgress
from core.privacy import erase as erasure
from core.privacy import export
from core.privacy.erase import CodeProof, IdentityProof
from core.privacy.export import Export
from core.runtime.container import Runtime
from core.security.identity import IdentityTokenInvalid, ProviderDisabled


@attrs.frozen(kw_only=True)
class EraseBody:
    """How the caller proves that the account is theirs.

    Either the code that was sent to their phone, or a new token of their identity provider. An anonymous customer sends
    neither.
    """

    otp_request_id: Id | None = None
    code: str | None = phone_code(optional=True)
    provider: Literal["a", "b"] | None = None
    identity_token: str | None = optional_text(1, 16_000, repr=False)
    nonce: str | None = optional_text(1, 500)


@attrs.frozen(kw_only=True)
class ErasureView:
    """An erasure that has begun. Texts follow within minutes."""

    erasure_id: Id
    began_at: Time


def _proof(data: EraseBody) -> CodeProof | IdentityProof | None:
    """Return the proof in a body, None without one. Raises ValidationFailed for half of one."""
    if data.otp_request_id is not None or data.code is not None:
        if data.otp_request_id is None or data.code is None:
            raise ValidationFailed.of("otp_request_id" if data.code else "code", field_messages.REQUIRED)
        return CodeProof(otp_request_id=data.otp_request_id, code=data.code)
    if data.provider is not None or data.identity_token is not None:
        if data.provider is None or data.identity_token is None:
            raise ValidationFailed.of("provider" if data.identity_token else "identity_token", field_messages.REQUIRED)
        return IdentityProof(provider=data.provider, identity_token=data.identity_token, nonce=data.nonce)
    return None


@post(
    "/api/client/auth/me/erase",
    status_code=202,
    dto=Body[EraseBody],
    return_dto=None,
    **customers(SessionInProgress, OtpInvalid, OtpExpired, OtpAttemptsExceeded, IdentityTokenInvalid, ProviderDisabled),
)
async def erase_me(data: EraseBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor) -> ErasureView:
    """Erase the caller's personal data and sign all their devices out.

    The identity is erased at once, the texts of the caller's sessions within minutes. Records of money stay. This can't
    be undone: a later sign-in makes a new customer.
    """
    made = await erasure.erase_own(runtime, actor, _proof(data), ip_address=client_ip(request))
    return ErasureView(erasure_id=Id(made.id), began_at=made.began_at)


@get("/api/client/auth/me/export", **customers(RecentSignInRequired))
async def export_me(runtime: Runtime, actor: Actor) -> Response[Export]:
    """Return everything that is stored of the caller.

    The caller must have signed in on this device within the last 10 minutes, and gets one export an hour. The answer
    comes in parts; if it ends early, its JSON is incomplete.
    """
    await require_recent_sign_in(runtime, actor)
    await export.begin_own(runtime, actor)
    return export_answer(runtime, UserType.CUSTOMER, actor.user_id)


ROUTES = [erase_me, export_me]
