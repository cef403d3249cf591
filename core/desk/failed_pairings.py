"""Reads of failed pairings: their age, whether the gateway can refund them, and their refunds."""

import datetime as dt
import enum
from typing import Any, Literal

import attrs

from core.accounts.operators.rules import allows
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import Count, Id, MitraId, PaymentRequestId, Person
from core.base.ids import parse_id
from core.base.pages import Items, Page, cut
from core.desk import disclosure, session_reports
from core.desk.support import CALLED, FoundAccounts, accounts_found, amount_in, unanswered
from core.payments.channels import ALLOWED, Refundability, outlook
from core.payments.failures.causes import CauseTag, SubCause, explanation
from core.payments.failures.rules import OperatorAction
from core.payments.refunds import rules
from core.payments.refunds.states import OPEN, RefundStatus
from core.runtime.container import Runtime
from core.storage.conditions import Conditions, part_of
from core.storage.fragments import ACCOUNT, NAME
from core.storage.records import as_dict

Sort = Literal["newest", "oldest", "amount"]
ORDERS: dict[Sort, str] = {
    "newest": "f.created_at DESC, f.id DESC",
    "oldest": "f.created_at, f.id",
    "amount": "f.amount DESC, f.created_at DESC, f.id DESC",
}
BEHIND_AMOUNT = """(f.amount, f.created_at, f.id) < (
  SELECT
    b.amount,
    b.created_at,
    b.id
  FROM pairing_failures AS b
  WHERE b.id = {0}::uuid
)"""
# All failures, with the customer, the operator who has acted on each, how it was paid, and its refund.
FAILURES = f"""SELECT
  f.id,
  f.payment_request_id,
  f.customer_id,
  {NAME} AS customer_name,
  f.targeted_mitra_id,
  f.cause_tag,
  f.sub_cause,
  f.twin_id,
  f.amount,
  p.asked_amount,
  f.operator_action,
  f.actioned_by,
  o.display_name AS operator_name,
  f.actioned_at,
  f.superseded_at,
  f.created_at,
  f.note,
  f.assigned_to,
  w.display_name AS worker_name,
  f.snoozed_until,
  p.payment_channel,
  p.gateway_invoice_id,
  p.confirmed_at AS paid_at,
  EXISTS(
    SELECT 1
    FROM operator_audit_log AS a
    WHERE a.object_id = p.id::text AND a.action = 'payment.confirmed'
  ) AS by_hand,
  r.status AS refund_status,
  r.reason AS refund_reason,
  r.requested_by AS refund_requested_by,
  q.display_name AS refund_operator_name,
  r.requested_at AS refund_requested_at,
  r.settled_at AS refund_settled_at,
  r.gateway_refund_id,
  r.failure_code AS refund_failure_code
FROM pairing_failures AS f
JOIN payment_requests AS p ON p.id = f.payment_request_id
JOIN customers AS c ON c.id = f.customer_id
{ACCOUNT}
LEFT JOIN control_center_users AS o ON o.id = f.actioned_by
LEFT JOIN control_center_users AS w ON w.id = f.assigned_to
LEFT JOIN refunds AS r ON r.failure_id = f.id
LEFT JOIN control_center_users AS q ON q.id = r.requested_by"""
FAILURE = f"""{FAILURES}
WHERE f.id = $1"""
FAILURES_PAGE = f"""{FAILURES}
WHERE {{where}}
ORDER BY {{order}}
LIMIT {{limit}}"""


class Problem(enum.StrEnum):
    """What an operator should look at first: a failure past its due time, an undecided or a failed refund."""

    LATE = "late"
    STUCK = "stuck"
    REFUND_FAILED = "refund_failed"


# Each needs the time before which its failure or refund was made.
PROBLEMS: dict[str, str] = {
    Problem.LATE: "f.created_at <= {0} AND is_open_refund(r.status) IS NOT TRUE",
    Problem.STUCK: "r.requested_at < {0} AND is_open_refund(r.status)",
    Problem.REFUND_FAILED: "r.requested_at <= {0} AND r.status = 'failed'",
}
UNDECIDED = "f.operator_action IS NULL AND f.superseded_at IS NULL"
# How many failures wait, of each kind. $1 is now, $2 is the operator, $3 and $4 are the bounds of `late` and `stuck`.
WAITING = f"""SELECT
  count(*) FILTER (WHERE is_shown AND NOT is_open)::int AS failures,
  count(*) FILTER (WHERE is_open)::int AS refunding,
  count(*) FILTER (WHERE is_shown AND is_late)::int AS late,
  count(*) FILTER (WHERE is_shown AND is_stuck)::int AS stuck,
  count(*) FILTER (WHERE is_shown AND has_failed)::int AS refund_failed,
  count(*) FILTER (WHERE is_shown AND NOT is_open AND cause_tag = 'payment_short')::int AS short,
  count(*) FILTER (WHERE is_shown AND assigned_to IS NOT NULL)::int AS taken,
  count(*) FILTER (WHERE is_shown AND is_mine)::int AS mine,
  count(*) FILTER (WHERE NOT is_shown)::int AS snoozed
FROM (
  SELECT
    f.cause_tag,
    f.assigned_to,
    coalesce(f.snoozed_until <= $1, true) AS is_shown,
    f.assigned_to IS NOT DISTINCT FROM $2::uuid AS is_mine,
    is_open_refund(r.status) IS TRUE AS is_open,
    {PROBLEMS[Problem.LATE].format("$3")} AS is_late,
    ({PROBLEMS[Problem.STUCK].format("$4")}) IS TRUE AS is_stuck,
    ({PROBLEMS[Problem.REFUND_FAILED].format("$1")}) IS TRUE AS has_failed
  FROM pairing_failures AS f
  LEFT JOIN refunds AS r ON r.failure_id = f.id
  WHERE {UNDECIDED}
) AS w"""


@attrs.frozen(kw_only=True)
class RefundView:
    """The refund of a failed pairing through the gateway.

    `failure_code` is the gateway's reason. `reason` is what the operator wrote. `is_stuck` says that the gateway has
    not decided for more than two hours: look for the refund there by the id of the failure, its reference.
    """

    status: RefundStatus = attrs.field(converter=RefundStatus)
    reason: str | None
    requested_by: Person
    requested_at: dt.datetime
    settled_at: dt.datetime | None
    gateway_refund_id: str | None
    failure_code: str | None
    is_stuck: bool


@attrs.frozen(kw_only=True)
class FailedPairing:
    """A paid request that led to no chat, and what an operator has done about it. `amount` is in Rupiah.

    `sub_cause` is what exactly happened, for causes that have several ways, and `why` says it in a sentence. `twin_id`
    is the other payment request of a customer who paid twice. `asked_amount` is what the invoice asked for if the
    customer paid less (`payment_short`), else null.

    `age_seconds` ends with the operator's action or the customer's next try. An operator should act by `due_at`.
    `refundable` says whether the payment's channel refunds, null if that is not known; false if it has a refund that
    can't be asked for again. `refundable_until` says until when, null if no limit is known. `may_refund` says whether a
    refund can be asked for now. `note` is for operators only. `assigned_to` works on it, and until `snoozed_until` it
    is put aside.
    """

    id: Id
    payment_request_id: PaymentRequestId
    customer: Person
    targeted_mitra_id: MitraId | None
    cause_tag: CauseTag = attrs.field(converter=CauseTag)
    sub_cause: SubCause | None = attrs.field(converter=attrs.converters.optional(SubCause))
    twin_id: PaymentRequestId | None
    why: str
    why_in_indonesian: str
    amount: int
    asked_amount: int | None
    operator_action: OperatorAction | None = attrs.field(converter=attrs.converters.optional(OperatorAction))
    actioned_by: Person | None
    actioned_at: dt.datetime | None
    superseded_at: dt.datetime | None
    created_at: dt.datetime
    note: str | None
    assigned_to: Person | None
    snoozed_until: dt.datetime | None
    age_seconds: Count
    due_at: dt.datetime
    payment_channel: str | None
    refundability: Refundability
    refundable: bool | None
    refundable_until: dt.datetime | None
    may_refund: bool
    refund: RefundView | None


def _failed_pairing(runtime: Runtime, actor: Actor, row: Any) -> FailedPairing:
    shown = disclosure.row_as(row, "note", "refund_reason", may_read=disclosure.readable(actor))
    values, now = as_dict(shown), runtime.now()
    customer = Person(id=values.pop("customer_id"), display_name=values.pop("customer_name"))
    by, name = values.pop("actioned_by"), values.pop("operator_name")
    worker, worker_name = values.pop("assigned_to"), values.pop("worker_name")
    refund = _refund(values, now=now)
    found = outlook(
        values["payment_channel"],
        amount=values["amount"],
        invoice_id=values.pop("gateway_invoice_id"),
        paid_at=values.pop("paid_at"),
        by_hand=values.pop("by_hand"),
        now=now,
    )
    ended = values["actioned_at"] or values["superseded_at"]
    age = (ended or now) - values["created_at"]
    may_try = refund is None or (
        refund.status not in OPEN
        and rules.may_try_again(gateway_refund_id=refund.gateway_refund_id, failure_code=refund.failure_code)
    )
    why = explanation(CauseTag(values["cause_tag"]), values["sub_cause"])
    return FailedPairing(
        **values,
        why=why.en,
        why_in_indonesian=why.id,
        customer=customer,
        assigned_to=Person(id=worker, display_name=worker_name) if worker else None,
        actioned_by=Person(id=by, display_name=name) if by else None,
        age_seconds=max(0, int(age.total_seconds())),
        due_at=values["created_at"] + dt.timedelta(hours=runtime.config.number("failure_due_hours")),
        refundability=found.refundability,
        refundable=found.is_refundable if may_try else False,
        refundable_until=found.until,
        may_refund=runtime.settings.refunds_enabled and ended is None and may_try and found.refundability in ALLOWED,
        refund=refund,
    )


def _refund(values: dict[str, Any], *, now: dt.datetime) -> RefundView | None:
    """Remove the refund's columns from a row of FAILURES and return the refund; None without one."""
    names = ("status", "reason", "requested_at", "settled_at", "failure_code")
    found = {name: values.pop(f"refund_{name}") for name in names}
    by = Person(id=values.pop("refund_requested_by"), display_name=values.pop("refund_operator_name"))
    refund_id = values.pop("gateway_refund_id")
    if found["status"] is None:
        return None
    stuck = rules.is_stuck(is_open=found["status"] in OPEN, requested_at=found["requested_at"], now=now)
    return RefundView(**found, requested_by=by, gateway_refund_id=refund_id, is_stuck=stuck)


@attrs.frozen(kw_only=True)
class FailureFilter:
    """Which failed pairings to list. The `operator_action` `none` finds those on which no operator has acted.

    So does `assigned_to` `none` with those that no operator works on. `snoozed`: whether they are put aside now.
    `q` is a part of the customer's name, their phone number, an amount, or the id of a failure, payment request,
    customer or targeted mitra; `accounts` as in `LookUp`.

    With a `problem`, only failures without an action are found. Without `texts`, notes and reasons are hidden.
    """

    cause_tag: str | None = None
    problem: str | None = None
    operator_action: str | None = None
    superseded: bool | None = False
    sort: Sort = "newest"
    assigned_to: str | None = None
    snoozed: bool | None = None
    q: str | None = None
    accounts: FoundAccounts | None = None
    texts: bool = True


async def failed_pairings(runtime: Runtime, actor: Actor, page: Page, which: FailureFilter) -> Items[FailedPairing]:
    """List failed pairings, without superseded ones by default; with `superseded` None all.

    Without `customers.pii`, notes and reasons are hidden; with it, an audit row records that they were read. Raises
    RateLimited, and Unavailable if it can't be written.
    """
    where = Conditions()
    where.add("f.cause_tag = {0}", which.cause_tag)
    if which.operator_action == "none":
        where.plain("f.operator_action IS NULL")
    else:
        where.add("f.operator_action = {0}", which.operator_action)
    if which.superseded is not None:
        where.plain("f.superseded_at IS NOT NULL" if which.superseded else "f.superseded_at IS NULL")
    if which.assigned_to == "none":
        where.plain("f.assigned_to IS NULL")
    else:
        where.add("f.assigned_to = {0}::uuid", which.assigned_to)
    if which.problem is not None:
        where.plain(UNDECIDED)
        where.add(PROBLEMS[which.problem], _bounds(runtime)[which.problem])
    snoozed = False if which.problem == Problem.LATE else which.snoozed  # one that is put aside is not late
    if snoozed is not None:
        where.add(f"coalesce(f.snoozed_until > {{0}}, false) = {str(snoozed).lower()}", runtime.now())
    if which.q:
        await _fit(runtime, actor, where, which)
    if which.sort == "amount":
        where.add(BEHIND_AMOUNT, page.before_id)
    else:
        first = which.sort == "oldest"
        where.behind("f.created_at", "f.id", before_at=page.before_at, before_id=page.before_id, oldest_first=first)
    limit = where.arg(page.limit + 1)
    statement = FAILURES_PAGE.format(where=where, order=ORDERS[which.sort], limit=limit)
    rows = await runtime.db.fetch(statement, *where.args)
    reader = actor if which.texts else disclosure.unread(actor)
    found = cut([_failed_pairing(runtime, reader, row) for row in rows], page, at="created_at")
    await _note_texts(runtime, reader, found.items, listed=True)
    return found


def _bounds(runtime: Runtime) -> dict[str, dt.datetime]:
    """Return the time before which a failure or its refund must have been made to have each problem."""
    now = runtime.now()
    return {
        Problem.LATE: now - dt.timedelta(hours=runtime.config.number("failure_due_hours")),
        Problem.STUCK: now - rules.STUCK_AFTER,
        Problem.REFUND_FAILED: now,
    }


@attrs.frozen(kw_only=True)
class Worklist:
    """How much waits for an operator. Kinds of areas that the operator may not read are null.

    `failures` are those without an action, a refund under way, or a later time until which they are put aside, and
    `refunding` those with a refund under way. `late`, `stuck` (the gateway does not decide about the refund),
    `refund_failed`, `short` (paid too little), `taken` (by an operator) and `mine` are among the failures without an
    action that are not put aside, and `snoozed` counts the others. `reports` are the open ones, and `no_reply` the
    running chats whose customer has waited `no_reply_minutes` for a reply.
    """

    failures: Count | None
    refunding: Count | None
    late: Count | None
    stuck: Count | None
    refund_failed: Count | None
    short: Count | None
    taken: Count | None
    mine: Count | None
    snoozed: Count | None
    reports: Count | None
    no_reply: Count | None


KINDS = ("failures", "refunding", "late", "stuck", "refund_failed", "short", "taken", "mine", "snoozed")


async def worklist(runtime: Runtime, actor: Actor) -> Worklist:
    """Return how much waits for an operator."""
    counts: dict[str, int | None] = dict.fromkeys(KINDS)
    if allows(actor.permissions, "failed_pairings", "read"):
        bounds = _bounds(runtime)
        late, stuck = bounds[Problem.LATE], bounds[Problem.STUCK]
        counts |= dict(await runtime.db.fetchrow(WAITING, runtime.now(), actor.user_id, late, stuck))
    return Worklist(
        **counts,
        reports=await session_reports.open_reports(runtime) if allows(actor.permissions, "reports", "read") else None,
        no_reply=await unanswered(runtime) if allows(actor.permissions, "sessions", "read") else None,
    )


async def _fit(runtime: Runtime, actor: Actor, where: Conditions, which: FailureFilter) -> None:
    """Add the condition of `q`."""
    q = which.q or ""
    customers = (which.accounts or await accounts_found(runtime, actor, q)).ids
    if customers is None:
        where.add(CALLED, part_of(q))
        return
    ways = [f"f.customer_id = ANY({where.arg(customers)}::uuid[])"]
    if (one := parse_id(q)) is not None:
        columns = ("f.id", "f.payment_request_id", "f.targeted_mitra_id")
        ways += [f"{column} = {where.arg(one)}::uuid" for column in columns]
    if (amount := amount_in(q)) is not None:
        ways.append(f"f.amount = {where.arg(amount)}")
    where.plain(f"({' OR '.join(ways)})")


async def _note_texts(runtime: Runtime, actor: Actor, shown: list[FailedPairing], *, listed: bool) -> None:
    """Write the audit row about notes and reasons that the operator reads."""
    reading = disclosure.Reading(actor=actor)
    for one in shown:
        reading.add(one.id, note=one.note, reason=one.refund and one.refund.reason)
    await reading.note(runtime, "pairing_failure", listed=listed)


async def failed_pairing(runtime: Runtime, actor: Actor, failure_id: str, *, noted: bool = True) -> FailedPairing:
    """Return one failed pairing, with texts as `failed_pairings`.

    Without `noted`, the row of the operator's write covers the reading. Raises NotFound for an unknown id.
    """
    row = await runtime.db.fetchrow(FAILURE, failure_id)
    if row is None:
        raise NotFound
    found = _failed_pairing(runtime, actor, row)
    if noted:
        await _note_texts(runtime, actor, [found], listed=False)
    return found
