"""Look-ups for support: customers, sessions, payment requests (docs/product.md#support).

Goodbyes and topics are shown with `customers.pii`, messages never.

Lists are newest first and filtered by a part of a name. A scan of the newest rows finds a common name soon, but for a
rare one it would read the whole table. So the people with that name are looked up first, with a trigram index. If there
are at most AT_MOST, their newest rows are read by key. If there are more, the newest rows contain enough of them.
"""

import datetime as dt
import enum
import re
from collections.abc import Sequence
from typing import Any

import attrs

from core.accounts.customers import store as customer_store
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import Count, Id, PaymentRequestId, Person, Positive, Time
from core.base.ids import parse_id
from core.base.pages import Items, Page, cut
from core.base.phones import like_numbers
from core.desk import disclosure
from core.desk.people import CustomerForOperators, CustomerView, shown_to
from core.payments import views as payment_views
from core.payments.views import PaymentRequestView
from core.runtime.container import Runtime
from core.sessions import views
from core.sessions.absences import store as absences
from core.sessions.states import HELD
from core.sessions.views import SessionView
from core.storage import sql_files
from core.storage.conditions import Conditions, newest, part_of
from core.storage.fragments import ACCOUNT, NAME
from core.storage.records import as_dict

AMOUNT = re.compile(r"(?:rp\.?)?\s*(\d{1,3}(?:[.,]\d{3})+|\d{1,10})", re.IGNORECASE)
LARGEST_AMOUNT = 2**31 - 1
AT_MOST = 1_000  # people with a name whose rows are read by key
# MATERIALIZED, because PostgreSQL would plan a LIMIT without it as a scan of the whole table.
# Names are compared in NFC and without case.
NAMED = "folded(c.display_name) LIKE folded({0})"
FITTING = """WITH fitting AS MATERIALIZED (
  SELECT c.id
  FROM {table} AS c
  WHERE {fits}
)
SELECT id
FROM fitting
LIMIT {limit}"""
SQL = sql_files.load(__file__)
CUSTOMERS = f"""{SQL["customers"]}
WHERE {{where}}
ORDER BY c.created_at DESC, c.id DESC
LIMIT {{limit}}"""
CALLED = f"{NAMED} OR folded(account.display_name) LIKE folded({{0}})"
SESSION = f"""{views.VIEW}
WHERE s.id = $1"""
SESSIONS = f"""{views.VIEW}
WHERE {{where}}
ORDER BY s.created_at DESC, s.id DESC
LIMIT {{limit}}"""
SESSIONS_FOUND = f"""{{found}}
{views.VIEW}
JOIN found ON found.id = s.id
ORDER BY s.created_at DESC, s.id DESC"""
# Running chats whose customer has waited since a message before the parameter: the first one that the mitra has not
# followed by one of theirs.
NO_REPLY = """s.status = 'active'
  AND s.customer_sent_seq > s.mitra_sent_seq
  AND (
    SELECT x.created_at
    FROM chat_messages AS x
    WHERE x.session_id = s.id AND x.seq > s.mitra_sent_seq AND x.sender_type = 'customer'
    ORDER BY x.seq
    LIMIT 1
  ) <= {0}"""
UNANSWERED = f"""SELECT count(*)::int
FROM chat_sessions AS s
WHERE {NO_REPLY.format("$1")}"""
PAYMENTS = f"""SELECT
  {payment_views.COLUMNS},
  p.gateway_invoice_id,
  p.payment_channel,
  p.asked_amount,
  CASE WHEN p.status = 'consumed' THEN p.amount - coalesce(
    (
      SELECT sum(d.amount)
      FROM refunds AS d
      WHERE d.payment_request_id = p.id AND d.failure_id IS NULL AND d.status <> 'failed'
    ),
    0
  ) ELSE 0 END::int AS refundable_amount,
  f.id AS failure_id,
  coalesce(
    f.twin_id,
    (
      SELECT d.payment_request_id
      FROM pairing_failures AS d
      WHERE d.twin_id = p.id AND d.sub_cause = 'double' AND d.superseded_at IS NULL
      ORDER BY d.id
      LIMIT 1
    )
  ) AS twin_id,
  b.reference AS refund_reference,
  b.gateway_refund_id,
  p.customer_id,
  {NAME} AS customer_name
FROM payment_requests AS p
JOIN customers AS c ON c.id = p.customer_id
{ACCOUNT}
{payment_views.LIVE_FAILURE}
{payment_views.PROMISE}"""
PAYMENT = f"""{PAYMENTS}
WHERE p.id = $1"""
PAYMENTS_PAGE = f"""{PAYMENTS}
WHERE {{where}}
ORDER BY p.created_at DESC, p.id DESC
LIMIT {{limit}}"""
PAYMENTS_FOUND = f"""{{found}}
{PAYMENTS}
JOIN found ON found.id = p.id
ORDER BY p.created_at DESC, p.id DESC"""


class RefundFilter(enum.StrEnum):
    """Which payments to list by the money that goes back: it should, is about to, has, or the refund failed."""

    TO_REFUND = "to_refund"
    REFUNDING = "refunding"
    REFUNDED = "refunded"
    FAILED = "failed"


REFUNDS_OF = "EXISTS (SELECT FROM refunds AS y WHERE y.payment_request_id = p.id AND {})"
FAILURE_OF = """EXISTS (
  SELECT FROM pairing_failures AS x
  WHERE x.payment_request_id = p.id AND x.superseded_at IS NULL AND x.operator_action {}
)"""
OPEN_REFUND = REFUNDS_OF.format("is_open_refund(y.status)")
DONE_REFUND = REFUNDS_OF.format("y.status = 'succeeded'")
FAILED_REFUND = REFUNDS_OF.format("y.status = 'failed'")
WAITS, ACTED = FAILURE_OF.format("IS NULL"), FAILURE_OF.format("IS NOT NULL")
GIVEN_BACK = FAILURE_OF.format("= 'refunded'")
REFUND_FILTERS: dict[str, str] = {
    RefundFilter.TO_REFUND: f"p.status = 'failed_pairing' AND {WAITS} AND NOT {OPEN_REFUND}",
    RefundFilter.REFUNDING: OPEN_REFUND,
    RefundFilter.REFUNDED: f"({DONE_REFUND} OR {GIVEN_BACK})",
    RefundFilter.FAILED: f"{FAILED_REFUND} AND NOT {OPEN_REFUND} AND NOT {DONE_REFUND} AND NOT {ACTED}",
}


@attrs.frozen
class FoundAccounts:
    """All ids of the accounts of customers that a text has found (docs/product.md#the-callers-ids); None: too many."""

    ids: list[str] | None


@attrs.frozen(kw_only=True)
class LookUp:
    """Filters of a list: `q` finds a part of a name or a whole id; the range of creation is half open.

    `no_reply` keeps only running chats without a reply of the mitra, `refund` only payments whose money goes back in
    that state. `accounts`: those that `q` has found; None: the list looks for them. `customer_ids`: the customers that
    `q` has found as a phone number; None: the list of customers looks for them.
    """

    q: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    status: str | None = None
    no_reply: bool = False
    refund: str | None = None
    customer_ids: Sequence[str] | None = None
    accounts: FoundAccounts | None = None


def amount_in(q: str) -> int | None:
    """Return the amount in Rupiah that a text says, such as `Rp 12.000`, `12,000` or `12000`; None for another text."""
    found = AMOUNT.fullmatch(q.strip())
    number = int(found[1].replace(".", "").replace(",", "")) if found else 0
    return number if 0 < number <= LARGEST_AMOUNT else None


async def fitting(runtime: Runtime, table: str, fits: Conditions) -> list[str] | None:
    """Return the ids of the rows of `table` that match; None if there are more than AT_MOST."""
    limit = fits.arg(AT_MOST + 1)
    rows = await runtime.db.fetch(FITTING.format(table=table, fits=fits, limit=limit), *fits.args)
    return None if len(rows) > AT_MOST else [str(row["id"]) for row in rows]


async def named(runtime: Runtime, table: str, q: str) -> list[str] | None:
    """Return the ids of the people with this name or id; None if there are more than AT_MOST."""
    one = parse_id(q)
    if one is not None:
        return [one]
    fits = Conditions()
    fits.add(NAMED, part_of(q))
    return await fitting(runtime, table, fits)


async def accounts_found(runtime: Runtime, actor: Actor, q: str) -> FoundAccounts:
    """Return the accounts of customers with this name, id or phone number. Raises RateLimited, Unavailable."""
    return await accounts_named(runtime, q, also=await disclosure.with_phone(runtime, actor, q))


async def accounts_named(runtime: Runtime, q: str, *, also: Sequence[str]) -> FoundAccounts:
    """Return the accounts of customers with this name or id, and of the customers `also`. Raises Unavailable."""
    ids = await named(runtime, "customers", q)
    if ids is None:
        return FoundAccounts(None)
    ids = [*ids, *also]
    accounts = await customer_store.ids_of_all(runtime.db, ids)
    return FoundAccounts(list({*ids, *(row_id for account in accounts.values() for row_id in account)}))


def filters(t: str, page: Page, which: LookUp) -> Conditions:
    """Return the conditions of all filters but `q`, for a table with the alias `t`."""
    where = Conditions()
    where.add(f"{t}.created_at >= {{0}}", which.since)
    where.add(f"{t}.created_at < {{0}}", which.until)
    where.add(f"{t}.status = {{0}}", which.status)
    where.behind(f"{t}.created_at", f"{t}.id", before_at=page.before_at, before_id=page.before_id)
    return where


async def customers(runtime: Runtime, actor: Actor, page: Page, which: LookUp) -> Items[CustomerForOperators]:
    """List customers, newest first. Without `customers.pii`, phone and e-mail are masked, and only a whole phone number
    is searched.

    With it, one audit row names the customers whose phone or e-mail is on the page. Raises RateLimited, and Unavailable
    if the row can't be written.
    """
    where = Conditions()
    if which.q:
        await _fit(runtime, actor, where, which)
    where.behind("c.created_at", "c.id", before_at=page.before_at, before_id=page.before_id)
    limit = where.arg(page.limit + 1)
    rows = await runtime.db.fetch(CUSTOMERS.format(where=where, limit=limit), *where.args)
    found = cut([CustomerView(**as_dict(row)) for row in rows], page, at="created_at")
    return Items(items=await shown_to(runtime, actor, found.items), next_cursor=found.next_cursor)


async def _fit(runtime: Runtime, actor: Actor, where: Conditions, which: LookUp) -> None:
    """Add the condition of `q`: an id, a part of the name, a phone number, or with `customers.pii` a part of the phone
    or e-mail."""
    q = which.q or ""
    one = parse_id(q)
    if one is not None:
        where.add("c.id = {0}::uuid", one)
        return
    open_book = disclosure.readable(actor)
    also = which.customer_ids
    if also is None:
        also = [] if open_book else await disclosure.with_phone(runtime, actor, q)
    text, numbers = part_of(q), [part_of(number) for number in like_numbers(q)] if open_book else []

    def fits(those: Conditions) -> Conditions:
        ways = [NAMED.format(those.arg(text))]
        ways += [f"folded(c.email) LIKE folded({those.arg(text)})"] if open_book else []
        ways += [f"c.phone LIKE {those.arg(number)}" for number in numbers]
        those.plain(f"({' OR '.join(ways)})")
        return those

    found = await fitting(runtime, "customers", fits(Conditions()))
    if found is None:
        fits(where)
    else:
        where.add("c.id = ANY({0}::uuid[])", [*found, *also])


@attrs.frozen(kw_only=True)
class SupportSession(SessionView):
    """A session as support sees it, with both goodbyes. `unread_count` is the customer's.

    `customer_absent_since` and `mitra_absent_since`: since when the party has given no sign of life; null if they are
    not absent. `first_reply_seconds`: from the customer's first message to the mitra's next one; null if there is none.
    `longest_silence_seconds`: the longest part of the paid time in which neither party wrote; null without a mitra.
    """

    payment_request_id: PaymentRequestId | None
    customer_absent_since: Time | None
    mitra_absent_since: Time | None
    messages_by_customer: Count
    messages_by_mitra: Count
    first_reply_seconds: Count | None
    longest_silence_seconds: Count | None


async def _sessions(runtime: Runtime, actor: Actor, rows: list[Any]) -> list[SupportSession]:
    may_read = disclosure.readable(actor)
    ids = [str(row["id"]) for row in rows]
    writing = {str(row["session_id"]): row for row in await runtime.db.fetch(SQL["writing"], ids, runtime.now())}
    away = {
        (absence.session_id, absence.user_type): absence.since for absence in await absences.open_of(runtime.db, ids)
    }
    found = []
    for row in rows:
        two = views.two_sided(row)
        view = disclosure.in_session(attrs.evolve(two.customer, closures=two.closures), may_read=may_read)
        values = {field.name: getattr(view, field.name) for field in attrs.fields(SessionView)}
        wrote = writing.get(view.id)
        found.append(
            SupportSession(
                **values,
                payment_request_id=two.payment_request_id,
                customer_absent_since=away.get((view.id, "customer")) if view.status in HELD else None,
                mitra_absent_since=away.get((view.id, "mitra")) if view.status in HELD else None,
                messages_by_customer=wrote["messages_by_customer"] if wrote else 0,
                messages_by_mitra=wrote["messages_by_mitra"] if wrote else 0,
                first_reply_seconds=wrote and wrote["first_reply_seconds"],
                longest_silence_seconds=wrote and wrote["longest_silence_seconds"],
            )
        )
    return found


def _unanswered_before(runtime: Runtime) -> dt.datetime | None:
    """Return until when the customer's message must have come for its chat to count as without a reply.

    None if `no_reply_minutes` is 0.
    """
    patience = runtime.config.minutes("no_reply_minutes")
    return runtime.now() - patience if patience else None


async def unanswered(runtime: Runtime) -> int:
    """Return in how many running chats the customer has waited `no_reply_minutes` for a reply of the mitra."""
    before = _unanswered_before(runtime)
    return await runtime.db.fetchval(UNANSWERED, before) if before else 0


async def sessions(runtime: Runtime, actor: Actor, page: Page, which: LookUp) -> Items[SupportSession]:
    """List sessions, newest first, with goodbyes and topics as core/desk/disclosure.py says.

    `q` is a part of a party's name, the customer's phone number, or the id of a session, party or payment request.
    Raises RateLimited, Unavailable.
    """
    where = filters("s", page, which)
    if which.no_reply:
        before = _unanswered_before(runtime)
        if before is None:
            return Items(items=[], next_cursor=None)
        where.add(NO_REPLY, before)
    limit = where.arg(page.limit + 1)
    found = ""
    if which.q:
        customers = (which.accounts or await accounts_found(runtime, actor, which.q)).ids
        mitras = await named(runtime, "mitras", which.q)
        if customers is None or mitras is None:
            where.add(f"({CALLED} OR folded(m.display_name) LIKE folded({{0}}))", part_of(which.q))
        else:
            one = parse_id(which.q)
            among: list[tuple[str, Sequence[str]]] = [("customer_id", customers), ("mitra_id", mitras)]
            among += [("id", [one]), ("payment_request_id", [one])] if one is not None else []
            found = newest("chat_sessions", "s", among, where, limit)
    statement = SESSIONS_FOUND.format(found=found) if found else SESSIONS.format(where=where, limit=limit)
    found_sessions = await _sessions(runtime, actor, await runtime.db.fetch(statement, *where.args))
    shown = cut(found_sessions, page, at="created_at")
    await disclosure.note_sessions(runtime, actor, shown.items, listed=True)
    return shown


async def session(runtime: Runtime, actor: Actor, session_id: str, *, noted: bool = True) -> SupportSession:
    """Return one session.

    Without `noted`, the audit row of the operator's write covers the reading. Raises NotFound.
    """
    found = await _sessions(runtime, actor, await runtime.db.fetch(SESSION, session_id))
    if not found:
        raise NotFound
    if noted:
        await disclosure.note_sessions(runtime, actor, found, listed=False)
    return found[0]


@attrs.frozen(kw_only=True)
class SupportPayment(PaymentRequestView):
    """A payment request as support sees it.

    `asked_amount` is what the invoice asked for if less was paid, which is then the `amount`; null otherwise.
    `failure_id` is the id of its failed pairing. `twin_id` is the other request of a customer who paid twice, for both
    of them. `refund_reference` and `gateway_refund_id` name the newest refund: by our reference, or that of a transfer
    by hand, and by the gateway's id. `refundable_amount` is how much of its earned money can still go back; 0 if it was
    not earned.
    """

    customer: Person
    gateway_invoice_id: str | None
    payment_channel: str | None
    asked_amount: Positive | None
    failure_id: Id | None
    twin_id: PaymentRequestId | None
    refund_reference: str | None
    gateway_refund_id: str | None
    refundable_amount: Count


def _payment(row: Any) -> SupportPayment:
    values = as_dict(row)
    customer = Person(id=values.pop("customer_id"), display_name=values.pop("customer_name"))
    return SupportPayment(customer=customer, **payment_views.parts_of(values), **values)


async def payments(runtime: Runtime, actor: Actor, page: Page, which: LookUp) -> Items[SupportPayment]:
    """List payment requests, newest first.

    `q` is a part of the customer's name, their phone number, an amount, or the id of a request, customer, mitra,
    session or invoice. Raises RateLimited, Unavailable.
    """
    where = filters("p", page, which)
    if which.refund is not None:
        where.plain(REFUND_FILTERS[which.refund])
    limit = where.arg(page.limit + 1)
    found = ""
    if which.q:
        customers = (which.accounts or await accounts_found(runtime, actor, which.q)).ids
        if customers is None:
            name, invoice = where.arg(part_of(which.q)), where.arg(which.q)
            where.plain(f"({CALLED.format(name)} OR p.gateway_invoice_id = {invoice})")
        else:
            among: list[tuple[str, Sequence[Any]]] = [("customer_id", customers), ("gateway_invoice_id", [which.q])]
            among += await _by_id(runtime, which.q)
            amount = amount_in(which.q)
            among += [] if amount is None else [("amount", [amount])]
            types = {"gateway_invoice_id": "text", "amount": "int"}
            found = newest("payment_requests", "p", among, where, limit, types=types)
    statement = PAYMENTS_FOUND.format(found=found) if found else PAYMENTS_PAGE.format(where=where, limit=limit)
    rows = await runtime.db.fetch(statement, *where.args)
    return cut([_payment(row) for row in rows], page, at="created_at", tiebreak="payment_request_id")


async def _by_id(runtime: Runtime, q: str) -> list[tuple[str, Sequence[str]]]:
    """Return the (column, values) by which payment requests may have this id; empty if `q` is not an id.

    The id may be that of a request, a targeted mitra, or a session that a request extends or paid for.
    """
    one = parse_id(q)
    if one is None:
        return []
    paid = await runtime.db.fetchval(SQL["paid_for"], one)
    own = [one] if paid is None else [one, str(paid)]
    return [("id", own), ("targeted_mitra_id", [one]), ("extends_session_id", [one])]


async def payment(runtime: Runtime, payment_request_id: str) -> SupportPayment:
    """Return one payment request. Raises NotFound."""
    row = await runtime.db.fetchrow(PAYMENT, payment_request_id)
    if row is None:
        raise NotFound
    return _payment(row)
