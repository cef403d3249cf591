"""Routes for failed pairings: paid requests without a chat, and what operators did about them."""

import datetime as dt
from typing import Any, cast

import attrs
from attrs.validators import max_len, min_len
from litestar import Request, get, patch, post

from api.auth import operators
from api.parameters import path_id, query_choice, query_id
from api.request_bodies import Body, JsonObject, no_nulls, shown_text, structure
from core.accounts.logins import callers
from core.accounts.operators.totp import TotpRequired
from core.base import field_messages, languages
from core.base.actor import Actor
from core.base.errors import ValidationFailed
from core.base.field_types import Id, OperatorId
from core.base.languages import Text
from core.base.pages import Items, read_page
from core.desk import failed_pairings as desk_failed_pairings
from core.desk import operator_work
from core.desk.failed_pairings import ORDERS, FailedPairing, FailureFilter, Problem, Sort, Worklist
from core.payments.failures.causes import CauseTag
from core.payments.failures.rules import AlreadyActioned, AlreadyAssigned, FailureSuperseded, OperatorAction
from core.payments.refunds import refund
from core.payments.refunds.rules import LONGEST_NOTE, NotRefundable, RefundPending, RefundsDisabled
from core.runtime.container import Runtime

PLANNED = ("assigned_to", "snoozed_until")
ONE_OF_BOTH = Text(
    en="is required without assigned_to or snoozed_until",
    id="wajib diisi, kecuali penugasan atau penundaan diubah",
)


@attrs.frozen(kw_only=True)
class ActionBody:
    """What you have done for the customer, with a note for other operators; or who works on the failure, and until when
    it is put aside. Null ends either."""

    operator_action: OperatorAction | None = None
    note: str | None = shown_text(LONGEST_NOTE, optional=True, low=0)
    assigned_to: OperatorId | None = None
    snoozed_until: dt.datetime | None = None


@attrs.frozen(kw_only=True)
class RefundsBody:
    """The failed pairings to refund, and why, for other operators."""

    ids: list[Id] = attrs.field(validator=[min_len(1), max_len(100)])
    reason: str | None = shown_text(LONGEST_NOTE, optional=True, low=0)


@attrs.frozen(kw_only=True)
class RefundResult:
    """Whether the refund of a failed pairing was asked for or is under way; else `code` and `message` say why not."""

    id: Id
    requested: bool
    code: str | None
    message: str | None


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
    assigned_to: str | None = None,
    snoozed: bool | None = None,
    problem: str | None = None,
    texts: bool = True,
    q: str | None = None,
    sort: str | None = None,
    order: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[FailedPairing]:
    """List failed pairings, newest first.

    With `sort=oldest` the customer who has waited longest is first, with `sort=amount` the largest amount; `order` is
    an earlier name of `sort`. `q` is a part of the customer's name, their phone number, an amount, or the id of a
    failure, payment request, customer or targeted mitra. `assigned_to` is an operator's id, or `none`. `snoozed=false`
    leaves out those that are put aside now.

    `problem` finds, among failures without an action, those past their due time (`late`), those about whose refund the
    gateway does not decide (`stuck`), and those whose refund has failed (`refund_failed`).

    Notes and reasons are hidden without `customers.pii`, and with `texts=false`, which leaves no audit row.
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
        assigned_to=assigned_to if assigned_to == "none" else query_id("assigned_to", assigned_to),
        snoozed=snoozed,
        problem=query_choice("problem", problem, Problem),
        texts=texts,
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
    dto=JsonObject,
    return_dto=None,
    body=ActionBody,
    **operators(
        "failed_pairings", "write", AlreadyActioned, AlreadyAssigned, FailureSuperseded, RefundPending, TotpRequired
    ),
)
async def act_on_failure(failure_id: str, data: dict[str, Any], runtime: Runtime, actor: Actor) -> FailedPairing:
    """Record what you have done for the customer, or say who works on it.

    With `operator_action`: this is possible once for each failed pairing, and not while its refund is under way.
    `refunded` needs a fresh code of the second factor, if you have one. Without it: `assigned_to` takes the failure for
    an operator, if no other one works on it, and `snoozed_until` puts it aside for at most 30 days. Without a `note` an
    earlier one stays.
    """
    found = path_id(failure_id)
    no_nulls(data, but=("note", *PLANNED))
    body = structure(data, ActionBody)
    planned = {name: getattr(body, name) for name in PLANNED if name in data}
    if (body.operator_action is None) == (not planned):
        raise ValidationFailed.of("operator_action", ONE_OF_BOTH)
    if body.operator_action is None:
        await operator_work.plan_failure(runtime, actor, failure_id=found, change=planned, note=body.note)
        return await desk_failed_pairings.failed_pairing(runtime, actor, found, noted=False)
    if body.operator_action is OperatorAction.REFUNDED:
        await callers.require_step_up(runtime, actor)
    await operator_work.act_on_failure(runtime, actor, failure_id=found, action=body.operator_action, note=body.note)
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


@post(
    "/internal/failed-pairings/refund",
    status_code=200,
    dto=Body[RefundsBody],
    return_dto=None,
    **operators("failed_pairings", "write", RefundsDisabled, step_up=True),
)
async def refund_failures(
    data: RefundsBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> Items[RefundResult]:
    """Refund the payments of several failed pairings through the gateway, as each one alone.

    One that can't be refunded does not keep the others from it. A repeat changes nothing for refunds under way.
    """
    outcomes = await operator_work.refund_failures(runtime, actor, failure_ids=data.ids, reason=data.reason)
    language = languages.of_errors(request.headers.get("Accept-Language"))
    return Items(
        items=[
            RefundResult(
                id=Id(one.id),
                requested=one.refused is None,
                code=one.refused and one.refused.code,
                message=one.refused and one.refused.message.said_in(language),
            )
            for one in outcomes
        ]
    )


@get("/internal/worklist", **operators(None))
async def worklist(runtime: Runtime, actor: Actor) -> Worklist:
    """Return how much waits for an operator: failed pairings, reports, and chats without a reply."""
    return await desk_failed_pairings.worklist(runtime, actor)


ROUTES = [worklist, failed_pairings, failed_pairing, act_on_failure, refund_failure, refund_failures]
