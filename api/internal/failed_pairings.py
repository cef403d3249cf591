"""Routes for failed pairings: paid requests without a chat, and what operators did about them."""

from typing import cast

import attrs
from litestar import get, patch, post

from api.auth import operators
from api.parameters import path_id
from api.request_bodies import Body, shown_text
from core.accounts.logins import callers
from core.accounts.operators.totp import TotpRequired
from core.base import field_messages
from core.base.actor import Actor
from core.base.errors import ValidationFailed
from core.base.pages import Items, read_page
from core.desk import failed_pairings as desk_failed_pairings
from core.desk import operator_work
from core.desk.failed_pairings import ORDERS, FailedPairing, FailureFilter, Sort
from core.payments.failures.causes import CauseTag
from core.payments.failures.rules import AlreadyActioned, FailureSuperseded, OperatorAction
from core.payments.refunds import refund
from core.payments.refunds.rules import LONGEST_NOTE, NotRefundable, RefundPending, RefundsDisabled
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class ActionBody:
    """What you have done for the customer, with a note for other operators."""

    operator_action: OperatorAction
    note: str | None = shown_text(LONGEST_NOTE, optional=True, low=0)


@attrs.frozen(kw_only=True)
class RefundBody:
    """Why you refund the payment, for other operators. The customer does not see it."""

    reason: str | None = shown_text(LONGEST_NOTE, optional=True, low=0)


@get("/internal/failed-pairings", **operators("failed_pairings"))
async def failed_pairings(
    runtime: Runtime,
    actor: Actor,
    cause_tag: str | None = None,
    operator_action: str | None = None,
    superseded: bool = False,
    q: str | None = None,
    sort: str | None = None,
    order: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[FailedPairing]:
    """List failed pairings, newest first.

    With `sort=oldest` the customer who has waited longest is first, with `sort=amount` the largest amount; `order` is
    an earlier name of `sort`. `q` is a part of the customer's name, their phone number, an amount, or the id of a
    failure, payment request or customer.
    """
    if cause_tag is not None and cause_tag not in set(CauseTag):
        raise ValidationFailed.of("cause_tag", field_messages.one_of(CauseTag))
    if operator_action is not None and operator_action not in {"none", *OperatorAction}:
        raise ValidationFailed.of(
            "operator_action",
            field_messages.one_of(("none", *OperatorAction)),
        )
    if order not in {None, "newest", "oldest"}:
        raise ValidationFailed.of("order", field_messages.one_of(("newest", "oldest")))
    if sort not in {None, *ORDERS}:
        raise ValidationFailed.of("sort", field_messages.one_of(tuple(ORDERS)))
    which = FailureFilter(
        cause_tag=cause_tag,
        operator_action=operator_action,
        superseded=superseded,
        q=q,
        sort=cast("Sort", sort or order or "newest"),
    )
    return await desk_failed_pairings.failed_pairings(runtime, actor, read_page(cursor, limit), which)


@get("/internal/failed-pairings/{failure_id:str}", **operators("failed_pairings"))
async def failed_pairing(failure_id: str, runtime: Runtime, actor: Actor) -> FailedPairing:
    """Return a failed pairing, also a superseded one.

    Without `customers.pii`, notes and reasons are hidden.
    """
    return await desk_failed_pairings.failed_pairing(runtime, actor, path_id(failure_id))


@patch(
    "/internal/failed-pairings/{failure_id:str}",
    dto=Body[ActionBody],
    return_dto=None,
    **operators("failed_pairings", "write", AlreadyActioned, FailureSuperseded, RefundPending, TotpRequired),
)
async def act_on_failure(failure_id: str, data: ActionBody, runtime: Runtime, actor: Actor) -> FailedPairing:
    """Record what you have done for the customer.

    This is possible once for each failed pairing, and not while its refund is under way. `refunded` needs a fresh code
    of the second factor, if you have one.
    """
    found = path_id(failure_id)
    if data.operator_action is OperatorAction.REFUNDED:
        await callers.require_step_up(runtime, actor)
    await operator_work.act_on_failure(runtime, actor, failure_id=found, action=data.operator_action, note=data.note)
    return await desk_failed_pairings.failed_pairing(runtime, actor, found, noted=False)


@post(
    "/internal/failed-pairings/{failure_id:str}/refund",
    status_code=202,
    dto=Body[RefundBody],
    return_dto=None,
    **operators(
        "failed_pairings",
        "write",
        AlreadyActioned,
        FailureSuperseded,
        NotRefundable,
        RefundsDisabled,
        step_up=True,
    ),
)
async def refund_failure(failure_id: str, data: RefundBody, runtime: Runtime, actor: Actor) -> FailedPairing:
    """Refund the payment through the gateway.

    The answer does not wait for the gateway: `refund.status` changes later, and on success `operator_action` becomes
    `refunded`. While a refund is under way, this call changes nothing. After a refusal it asks again, if `may_refund`
    is true.
    """
    found = path_id(failure_id)
    await refund.request(runtime, actor, failure_id=found, reason=data.reason)
    return await desk_failed_pairings.failed_pairing(runtime, actor, found, noted=False)


ROUTES = [failed_pairings, failed_pairing, act_on_failure, refund_failure]
