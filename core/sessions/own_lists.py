"""Lists of a customer's own payment requests, sessions and transactions, of all the caller's ids
(docs/product.md#the-callers-ids).

Each list is read per id, with the index on customer and time. A filter reads at most the caller's own sessions, and
each of these came from a confirmed payment, so there are few.
"""

import datetime as dt
from typing import Any, Literal

import attrs

from core.base.actor import Actor, UserType
from core.base.field_types import Id, SessionId
from core.base.pages import Items, Page, cut
from core.payments import views as payment_views
from core.payments.views import PaymentRequestView
from core.runtime.container import Runtime
from core.sessions import views as session_views
from core.sessions.views import SessionView
from core.storage.conditions import Conditions, newest
from core.storage.records import many


@attrs.frozen(kw_only=True)
class TransactionView:
    """A payment that was earned with a session or an extension (`type`), or a refund of one.

    `amount` is in Rupiah, that of a refund negative.
    """

    id: Id
    type: Literal["session", "extension", "refund"]
    amount: int
    session_id: SessionId
    created_at: dt.datetime


# The base of a list, which `_newest` joins to the rows that it has found.
TRANSACTIONS = """SELECT
  t.id,
  t.type,
  t.amount,
  t.session_id,
  t.created_at
FROM customer_transactions AS t"""
NEWEST = """{found}
{view}
JOIN found ON found.id = {t}.id
ORDER BY {t}.created_at DESC, {t}.id DESC"""


async def payment_requests(runtime: Runtime, actor: Actor, page: Page) -> Items[PaymentRequestView]:
    """List the caller's payment requests, newest first."""
    rows = await _newest(runtime, actor, page, "payment_requests", "p", payment_views.REQUEST, Conditions())
    return cut([payment_views.of_row(row) for row in rows], page, at="created_at", tiebreak="payment_request_id")


async def sessions(
    runtime: Runtime, actor: Actor, page: Page, *, mitra_id: str | None = None, status: str | None = None
) -> Items[SessionView]:
    """List the caller's sessions, newest first; optionally only those with one mitra or in one state."""
    where = Conditions()
    where.add("s.mitra_id = {0}", mitra_id)
    where.add("s.status = {0}", status)
    rows = await _newest(runtime, actor, page, "chat_sessions", "s", session_views.VIEW, where)
    return cut([session_views.two_sided(row).seen_by(UserType.CUSTOMER) for row in rows], page, at="created_at")


async def transactions(runtime: Runtime, actor: Actor, page: Page) -> Items[TransactionView]:
    """List the transactions of the caller's sessions, newest first."""
    rows = await _newest(runtime, actor, page, "customer_transactions", "t", TRANSACTIONS, Conditions())
    return cut(many(TransactionView, rows), page, at="created_at")


async def _newest(
    runtime: Runtime, actor: Actor, page: Page, table: str, t: str, view: str, where: Conditions
) -> list[Any]:
    """Return one page and one more of the caller's rows, newest first.

    `t` is the alias of the table in the SELECT `view`.
    """
    where.behind(f"{t}.created_at", f"{t}.id", before_at=page.before_at, before_id=page.before_id)
    found = newest(table, t, [("customer_id", list(actor.ids))], where, where.arg(page.limit + 1))
    return await runtime.db.fetch(NEWEST.format(found=found, view=view, t=t), *where.args)
