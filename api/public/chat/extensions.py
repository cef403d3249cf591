"""Routes by which a customer asks for an extension, and the mitra answers."""

from typing import Any

import attrs
from litestar import Request, post

from api.auth import customers, mitras
from api.idempotency import key_of
from api.parameters import path_id
from api.request_bodies import Body
from core.base.actor import Actor
from core.base.field_types import PaymentRequestId
from core.idempotency.rules import IdempotencyInFlight, IdempotencyMismatch
from core.payments.rules import PaymentNotConfirmed
from core.runtime.container import Runtime
from core.sessions.extensions import answer as extension_answer
from core.sessions.extensions import ask as extension_ask
from core.sessions.extensions.rules import ExtensionNotPending
from core.sessions.extensions.views import ExtensionView


@attrs.frozen(kw_only=True)
class AskBody:
    """The confirmed payment request of the extension."""

    payment_request_id: PaymentRequestId


@attrs.frozen(kw_only=True)
class AnswerBody:
    """Whether the mitra accepts the extension."""

    accept: bool


@post(
    "/api/shared/chat/sessions/{session_id:str}/extensions",
    status_code=200,
    dto=Body[AskBody],
    return_dto=None,
    idempotent=True,
    **customers(PaymentNotConfirmed, IdempotencyMismatch, IdempotencyInFlight),
)
async def ask_extension(
    session_id: str, data: AskBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> ExtensionView:
    """Ask the mitra for a paid extension.

    The service does this when the payment is confirmed, so apps need not call it. A further call returns the extension
    as it is.
    """
    return await extension_ask.ask_explicitly(
        runtime,
        actor,
        session_id=path_id(session_id),
        payment_request_id=data.payment_request_id,
        key=key_of(request, actor, f"extension of {session_id}", data),
    )


@post(
    "/api/shared/chat/sessions/{session_id:str}/extensions/{extension_id:str}/answer",
    status_code=200,
    dto=Body[AnswerBody],
    return_dto=None,
    **mitras(ExtensionNotPending),
)
async def answer_extension(
    session_id: str, extension_id: str, data: AnswerBody, runtime: Runtime, actor: Actor
) -> ExtensionView:
    """Accept or reject an extension."""
    return await extension_answer.answer(
        runtime, actor, session_id=path_id(session_id), extension_id=path_id(extension_id), accept=data.accept
    )


ROUTES = [ask_extension, answer_extension]
