"""Reads of the operators' audit log: who changed what, and who read personal data (docs/product.md#audit-log)."""

import datetime as dt
from typing import Any

import attrs

from core.accounts.operators.rules import allows
from core.accounts.operators.store import LIST
from core.base.actor import Actor
from core.base.field_types import Id, Person
from core.base.pages import Page, ReportItems, as_report, cut
from core.desk import disclosure
from core.runtime.container import Runtime
from core.storage.conditions import Conditions
from core.storage.fragments import ACCOUNT, NAME
from core.storage.records import as_dict


@attrs.frozen(kw_only=True)
class AuditEntry:
    """One row of the audit log. For a row about several objects, `object_id` is `list` and `after.ids` has their
    ids.

    `object_name`: the name of the customer, mitra, operator or role; of a tier its minutes and mode, such as
    `60 min, chat`; of a payment, session or failure the customer's name. Null without one, and without the object's
    area.
    """

    id: Id
    operator: Person
    action: str
    object_type: str
    object_id: str
    object_name: str | None
    before: Any
    after: Any
    created_at: dt.datetime


@attrs.frozen(kw_only=True)
class AuditFilter:
    """Which rows to list. An `object_id` also finds rows about several objects that include it."""

    operator_id: str | None = None
    action: str | None = None
    object_type: str | None = None
    object_id: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None


def _of_customer(table: str) -> str:
    """Return the SQL of the name of the customer of a row of `table`."""
    return f"SELECT {NAME} FROM {table} AS t JOIN customers AS c ON c.id = t.customer_id {ACCOUNT} WHERE t.id = x.id"


# Type of object -> its area, and the SQL of its name. `x.id` is the id of the object.
NAMED = {
    "customer": ("customers", f"SELECT {NAME} FROM customers AS c {ACCOUNT} WHERE c.id = x.id"),
    "mitra": ("mitras", "SELECT m.display_name FROM mitras AS m WHERE m.id = x.id"),
    "operator": ("operators", "SELECT n.display_name FROM control_center_users AS n WHERE n.id = x.id"),
    "role": ("operators", "SELECT r.name FROM roles AS r WHERE r.id = x.id"),
    "pricing_tier": ("pricing", "SELECT t.minutes || ' min, ' || t.mode FROM pricing_tiers AS t WHERE t.id = x.id"),
    "payment_request": ("payments", _of_customer("payment_requests")),
    "chat_session": ("sessions", _of_customer("chat_sessions")),
    "session": ("sessions", _of_customer("chat_sessions")),  # its texts were read
    "pairing_failure": ("failed_pairings", _of_customer("pairing_failures")),
}
NAMES = "\n".join(f"    WHEN '{kind}' THEN ({name})" for kind, (_, name) in NAMED.items())
# Names the command line where an operator stands: rows that it wrote have none.
COMMAND_LINE = "00000000-0000-7000-8000-000000000000"
# The newest rows of the audit log, each with its operator.
PAGE = f"""SELECT
  a.id,
  coalesce(a.operator_id, '{COMMAND_LINE}') AS operator_id,
  coalesce(o.display_name, 'command line') AS operator_name,
  a.action,
  a.object_type,
  a.object_id,
  CASE a.object_type
{NAMES}
  END AS object_name,
  a.before,
  a.after,
  a.created_at
FROM operator_audit_log AS a
LEFT JOIN control_center_users AS o ON o.id = a.operator_id
CROSS JOIN LATERAL (
  SELECT CASE WHEN pg_input_is_valid(a.object_id, 'uuid') THEN a.object_id::uuid END AS id
) AS x
WHERE {{where}}
ORDER BY a.created_at DESC, a.id DESC
LIMIT {{limit}}"""
# Rows about an object, and rows about several objects that include it.
OF_OBJECT = f"(a.object_id = {{0}} OR (a.object_id = '{LIST}' AND a.after -> 'ids' ? {{0}}))"


# The fields of `before` and `after` that only operators with this area read, and what stands for them.
PRIVATE = {
    "phone": ("customers.pii", disclosure.masked_contact),
    "reason": ("customers.pii", disclosure.hidden),
    "note": ("customers.pii", disclosure.hidden),
    "email": ("operators", disclosure.masked_contact),
}


def _shown(actor: Actor, change: Any) -> Any:
    """Return `before` or `after` as the operator may see it."""
    if not isinstance(change, dict):
        return change

    def value(name: str, held: Any) -> Any:
        if name not in PRIVATE or not isinstance(held, str):
            return held
        area, hide = PRIVATE[name]
        return held if allows(actor.permissions, area, "read") else hide(held)

    return {name: value(name, held) for name, held in change.items()}


def _texts(entry: AuditEntry) -> dict[str, Any]:
    """Return the personal texts of an entry that `customers.pii` shows."""
    both = [change for change in (entry.before, entry.after) if isinstance(change, dict)]
    return {name: any(change.get(name) for change in both) for name in ("phone", "reason", "note")}


def _entry(actor: Actor, row: Any) -> AuditEntry:
    values = as_dict(row)
    values |= {name: _shown(actor, values[name]) for name in ("before", "after")}
    area, _ = NAMED.get(values["object_type"], (None, None))
    if area is None or not allows(actor.permissions, area, "read"):
        values["object_name"] = None
    operator = Person(id=values.pop("operator_id"), display_name=values.pop("operator_name"))
    return AuditEntry(**values, operator=operator)


async def audit_log(runtime: Runtime, actor: Actor, page: Page, which: AuditFilter) -> ReportItems[AuditEntry]:
    """List rows of the audit log, newest first.

    Without `customers.pii`, mitras' phones, reasons and notes are masked; with it, an audit row records that they were
    read. Without `operators`, operators' e-mails are masked. Raises Unavailable if the audit row can't be written.
    """
    where = Conditions()
    if which.operator_id == COMMAND_LINE:
        where.plain("a.operator_id IS NULL")
    else:
        where.add("a.operator_id = {0}", which.operator_id)
    where.add("a.action = {0}", which.action)
    where.add("a.object_type = {0}", which.object_type)
    where.add(OF_OBJECT, which.object_id)
    where.add("a.created_at >= {0}", which.since)
    where.add("a.created_at < {0}", which.until)
    where.behind("a.created_at", "a.id", before_at=page.before_at, before_id=page.before_id)
    limit = where.arg(page.limit + 1)
    report = await runtime.reports.fetch(PAGE.format(where=where, limit=limit), *where.args)
    found = cut([_entry(actor, row) for row in report.rows], page, at="created_at")
    reading = disclosure.Reading(actor=actor)
    for entry in found.items:
        reading.add(entry.id, **_texts(entry))
    await reading.note(runtime, "operator_audit_log", listed=True)
    return as_report(found, lag_s=report.lag_s)
