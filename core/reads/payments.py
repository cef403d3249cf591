"""Reads of payment requests and failed pairings."""

import datetime as dt
from typing import Any

import attrs

from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import Id, MitraId, Mode, PaymentRequestId
from core.base.pages import Items, Page, cut
from core.pairing_failures.causes import CauseTag
from core.pairing_failures.rules import OperatorAction
from core.payments import views
from core.payments.states import PaymentStatus
from core.payments.views import PaymentRequestView
from core.runtime import Runtime
from core.sessions.views import Person
from core.storage.conditions import Conditions
from core.storage.fragments import ACCOUNT, NAME
from core.storage.records import as_dict, many
from core.transactions import translate_db_errors

DEVELOPMENT_PAGE = """SELECT
  id AS payment_request_id,
  status,
  amount,
  duration_minutes,
  mode,
  gateway_invoice_id
FROM payment_requests
WHERE id = $1"""
# All failures, with the customer and the operator who has acted on each.
FAILURES = f"""SELECT
  f.id,
  f.payment_request_id,
  f.customer_id,
  {NAME} AS customer_name,
  f.targeted_mitra_id,
  f.cause_tag,
  f.amount,
  f.operator_action,
  f.actioned_by,
  o.display_name AS operator_name,
  f.actioned_at,
  f.superseded_at,
  f.created_at
FROM pairing_failures AS f
JOIN customers AS c ON c.id = f.customer_id
{ACCOUNT}
LEFT JOIN control_center_users AS o ON o.id = f.actioned_by"""
FAILURE = f"""{FAILURES}
WHERE f.id = $1"""
FAILURES_PAGE = f"""{FAILURES}
WHERE {{where}}
ORDER BY f.created_at {{order}}, f.id {{order}}
LIMIT {{limit}}"""


async def payment(runtime: Runtime, actor: Actor, payment_request_id: str) -> PaymentRequestView:
    """Return a payment request of the caller.

    Raises NotFound if it is not theirs.
    """
    with translate_db_errors():
        view = await views.one_of(runtime.db, payment_request_id, customer_ids=list(actor.ids))
    if view is None:
        raise NotFound
    return view


@attrs.frozen(kw_only=True)
class DevelopmentPage:
    """What the development payment page shows. `amount` is in Rupiah."""

    payment_request_id: PaymentRequestId
    status: PaymentStatus = attrs.field(converter=PaymentStatus)
    amount: int
    duration_minutes: int
    mode: Mode
    gateway_invoice_id: str | None


async def for_development_page(runtime: Runtime, payment_request_id: str) -> DevelopmentPage:
    """Return any payment request, for the development page that replaces the gateway's.

    Raises NotFound for an unknown id.
    """
    with translate_db_errors():
        rows = many(
            DevelopmentPage,
            await runtime.db.fetch(DEVELOPMENT_PAGE, payment_request_id),
        )
    if not rows:
        raise NotFound
    return rows[0]


@attrs.frozen(kw_only=True)
class FailedPairing:
    """A paid request that led to no chat, and what an operator has done about it. `amount` is in Rupiah."""

    id: Id
    payment_request_id: PaymentRequestId
    customer: Person
    targeted_mitra_id: MitraId | None
    cause_tag: CauseTag = attrs.field(converter=CauseTag)
    amount: int
    operator_action: OperatorAction | None = attrs.field(converter=attrs.converters.optional(OperatorAction))
    actioned_by: Person | None
    actioned_at: dt.datetime | None
    superseded_at: dt.datetime | None
    created_at: dt.datetime


def _failed_pairing(row: Any) -> FailedPairing:
    values = as_dict(row)
    customer = Person(id=values.pop("customer_id"), display_name=values.pop("customer_name"))
    by, name = values.pop("actioned_by"), values.pop("operator_name")
    return FailedPairing(**values, customer=customer, actioned_by=Person(id=by, display_name=name) if by else None)


@attrs.frozen(kw_only=True)
class FailureFilter:
    """Which failed pairings to list. The `operator_action` `none` finds those on which no operator has acted."""

    cause_tag: str | None = None
    operator_action: str | None = None
    superseded: bool = False
    oldest_first: bool = False


async def failed_pairings(runtime: Runtime, page: Page, which: FailureFilter) -> Items:
    """List failed pairings, newest first unless the page says oldest first, and without superseded ones by default."""
    where = Conditions()
    where.add("f.cause_tag = {0}", which.cause_tag)
    if which.operator_action == "none":
        where.plain("f.operator_action IS NULL")
    else:
        where.add("f.operator_action = {0}", which.operator_action)
    where.plain("f.superseded_at IS NOT NULL" if which.superseded else "f.superseded_at IS NULL")
    order = "ASC" if which.oldest_first else "DESC"
    where.behind(
        "f.created_at", "f.id", before_at=page.before_at, before_id=page.before_id, oldest_first=which.oldest_first
    )
    limit = where.arg(page.limit + 1)
    with translate_db_errors():
        rows = await runtime.db.fetch(FAILURES_PAGE.format(where=where, order=order, limit=limit), *where.args)
    return cut([_failed_pairing(row) for row in rows], page, at="created_at")


async def failed_pairing(runtime: Runtime, failure_id: str) -> FailedPairing:
    """Return one failed pairing.

    Raises NotFound for an unknown id.
    """
    with translate_db_errors():
        row = await runtime.db.fetchrow(FAILURE, failure_id)
    if row is None:
        raise NotFound
    return _failed_pairing(row)
