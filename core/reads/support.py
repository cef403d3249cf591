"""Look-ups for support: customers, sessions, payment requests (contract 8). Never a message's text."""

import datetime as dt
from typing import Any

import attrs

from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.ids import parse_id
from core.base.pages import Items, Page, cut
from core.base.phones import like_numbers
from core.base.search import part_of
from core.operators.rules import allows
from core.payments import views as payment_views
from core.payments.views import PaymentView
from core.reads.people import CustomerView, masked_for
from core.runtime import Runtime, away_is_unavailable
from core.sessions import views
from core.sessions.views import Person, SessionView
from core.storage.records import as_dict


@attrs.frozen(kw_only=True)
class LookUp:
    """What to look for: part of a name or a whole id, a range of creation (its end excluded), a state."""

    q: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    status: str | None = None


CUSTOMERS = """SELECT c.id, c.phone, c.display_name, c.is_anonymous, c.email, c.push_token IS NOT NULL AS push_enabled,
    c.account_belongs_to, c.usp_seen, c.created_at FROM customers c"""


async def customers(runtime: Runtime, actor: Actor, page: Page, which: LookUp) -> Items[CustomerView]:
    """List customers, newest first. Phone and e-mail are masked, and not looked through, without `customers.pii`."""
    open_book = allows(actor.permissions, "customers.pii", "read")
    with away_is_unavailable():
        rows = await runtime.db.fetch(
            f"""{CUSTOMERS} WHERE ($1::text IS NULL OR c.display_name ILIKE $1 OR c.id = $2::uuid
                  OR ($3 AND (c.phone LIKE ANY($4::text[]) OR c.email ILIKE $1)))
                AND ($5::timestamptz IS NULL OR (c.created_at, c.id) < ($5, $6::uuid))
                ORDER BY c.created_at DESC, c.id DESC LIMIT $7""",
            part_of(which.q), parse_id(which.q), open_book, [part_of(part) for part in like_numbers(which.q)], page.before_at, page.before_id,
            page.limit + 1,
        )  # fmt: skip
    return cut([masked_for(actor, CustomerView(**as_dict(row))) for row in rows], page, at="created_at")


@attrs.frozen(kw_only=True)
class SupportSession(SessionView):
    """A session as support sees it; `unread_count` is the customer's."""

    payment_request_id: str | None


def _session(row: Any) -> SupportSession:
    two = views.two_sided(row)
    values = {field.name: getattr(two.customer, field.name) for field in attrs.fields(SessionView)}
    return SupportSession(**values, payment_request_id=two.payment_request_id)


async def sessions(runtime: Runtime, page: Page, which: LookUp) -> Items[SupportSession]:
    """List sessions, newest first; `q` is a party's name, or an id of session, party or payment request."""
    with away_is_unavailable():
        rows = await runtime.db.fetch(
            f"""{views.VIEW} WHERE ($1::text IS NULL OR c.display_name ILIKE $1 OR m.display_name ILIKE $1
                  OR $2::uuid IN (s.id, s.customer_id, s.mitra_id, s.payment_request_id))
                AND ($3::timestamptz IS NULL OR s.created_at >= $3) AND ($4::timestamptz IS NULL OR s.created_at < $4)
                AND ($5::text IS NULL OR s.status = $5)
                AND ($6::timestamptz IS NULL OR (s.created_at, s.id) < ($6, $7::uuid))
                ORDER BY s.created_at DESC, s.id DESC LIMIT $8""",
            part_of(which.q), parse_id(which.q), which.since, which.until, which.status, page.before_at, page.before_id,
            page.limit + 1,
        )  # fmt: skip
    return cut([_session(row) for row in rows], page, at="created_at")


async def session(runtime: Runtime, session_id: str) -> SupportSession:
    """Read one session. Raises NotFound."""
    with away_is_unavailable():
        row = await runtime.db.fetchrow(f"{views.VIEW} WHERE s.id = $1", session_id)
    if row is None:
        raise NotFound
    return _session(row)


@attrs.frozen(kw_only=True)
class SupportPayment(PaymentView):
    """A payment request as support sees it."""

    customer: Person
    gateway_invoice_id: str | None


PAYMENTS = payment_views.REQUEST.replace(
    "FROM payment_requests p",
    ", p.gateway_invoice_id, p.customer_id, c.display_name AS customer_name FROM payment_requests p JOIN customers c ON c.id = p.customer_id",
)


def _payment(row: Any) -> SupportPayment:
    values = as_dict(row)
    customer = Person(id=values.pop("customer_id"), display_name=values.pop("customer_name"))
    return SupportPayment(customer=customer, failure=payment_views.failure_of(values), **values)


async def payments(runtime: Runtime, page: Page, which: LookUp) -> Items[SupportPayment]:
    """List payment requests, newest first; `q` is the customer's name, or an id of request, customer, mitra or invoice."""
    with away_is_unavailable():
        rows = await runtime.db.fetch(
            f"""{PAYMENTS} WHERE ($1::text IS NULL OR c.display_name ILIKE $1 OR p.gateway_invoice_id = $9
                  OR $2::uuid IN (p.id, p.customer_id, p.targeted_mitra_id, p.extends_session_id)
                  OR p.id = (SELECT s.payment_request_id FROM chat_sessions s WHERE s.id = $2))
                AND ($3::timestamptz IS NULL OR p.created_at >= $3) AND ($4::timestamptz IS NULL OR p.created_at < $4)
                AND ($5::text IS NULL OR p.status = $5)
                AND ($6::timestamptz IS NULL OR (p.created_at, p.id) < ($6, $7::uuid))
                ORDER BY p.created_at DESC, p.id DESC LIMIT $8""",
            part_of(which.q), parse_id(which.q), which.since, which.until, which.status, page.before_at, page.before_id,
            page.limit + 1, which.q,
        )  # fmt: skip
    return cut([_payment(row) for row in rows], page, at="created_at", place="payment_request_id")


async def payment(runtime: Runtime, payment_request_id: str) -> SupportPayment:
    """Read one payment request. Raises NotFound."""
    with away_is_unavailable():
        row = await runtime.db.fetchrow(f"{PAYMENTS} WHERE p.id = $1", payment_request_id)
    if row is None:
        raise NotFound
    return _payment(row)
