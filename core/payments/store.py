"""Reads of payment requests, and writes that leave their status as it is."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.base.field_types import CustomerId, MitraId, Mode, PaymentRequestId, SessionId
from core.payments.rules import POLL_AFTER
from core.payments.states import PaymentStatus
from core.payments.tables import PaymentRequest as Requests
from core.storage import sql_files
from core.storage.records import many, one, plain
from core.storage.statements import columns_of, names_of, p, statement
from core.storage.transaction import Reader, Tx

AT_ONCE = 500  # rows in one statement


@attrs.frozen(kw_only=True)
class PaymentRequest:
    """A row of payment_requests. Amounts are in Rupiah. `asked_amount`: more than was paid was asked for."""

    id: PaymentRequestId
    customer_id: CustomerId
    amount: int
    asked_amount: int | None = None
    duration_minutes: int
    is_first_session_discount: bool
    is_extension: bool
    extends_session_id: SessionId | None
    mode: Mode
    status: PaymentStatus = attrs.field(converter=PaymentStatus)
    targeted_mitra_id: MitraId | None
    topics: list[str] | None
    created_at: dt.datetime
    confirmed_at: dt.datetime | None
    consumed_at: dt.datetime | None
    expires_at: dt.datetime
    gateway_invoice_id: str | None
    gateway_invoice_url: str | None


SQL = sql_files.load(__file__)
RETURNING = f"RETURNING {names_of(PaymentRequest)}"
COLUMNS = columns_of(Requests, PaymentRequest)
GET = statement(Requests.select(*COLUMNS).where(Requests.id == p.id), PaymentRequest)
LOCK = statement(Requests.select(*COLUMNS).where(Requests.id == p.id).lock_rows("UPDATE"), PaymentRequest)
SET_INVOICE = statement(
    Requests.update(
        gateway_invoice_id=p.invoice_id, gateway_invoice_url=p.url, invoice_made_at=p.now, poll_at=p.poll_at
    ).where(
        Requests.id == p.id, (Requests.gateway_invoice_id.is_null()) | (Requests.gateway_invoice_id == p.invoice_id)
    )
)
KEEP_INVOICE = statement(
    Requests.update(gateway_invoice_id=p.invoice_id).where(Requests.id == p.id, Requests.gateway_invoice_id.is_null())
)
GIVE_INVOICE_UP = statement(Requests.update(gateway_invoice_id=None).where(Requests.id == p.id))
KEEP_CHANNEL = statement(
    Requests.update(payment_channel=p.channel).where(Requests.id == p.id, Requests.payment_channel.is_null())
)
OF_INVOICE = statement(Requests.select(Requests.id).where(Requests.gateway_invoice_id == p.invoice_id))
UNTARGET = statement(
    Requests.update(targeted_mitra_id=None).where(Requests.id == p.id, Requests.status == PaymentStatus.CONFIRMED)
)
KEEP_TRACEPARENT = statement(Requests.update(traceparent=p.traceparent).where(Requests.id == p.id))
TRACEPARENT = statement(Requests.select(Requests.traceparent).where(Requests.id == p.id))
DUE = f"""SELECT {names_of(PaymentRequest)}
FROM payment_requests
WHERE
  id IN (SELECT id FROM timed_work WHERE kind = 'expire_payments' AND due_at <= $1)
  AND ($3::timestamptz IS NULL OR (expires_at, id) > ($3, $4::uuid))
ORDER BY expires_at, id
LIMIT $2"""
CONFIRMED_WITHOUT_CHAT = f"""SELECT {names_of(PaymentRequest)}
FROM payment_requests
WHERE id IN (SELECT id FROM timed_work WHERE kind = 'announce_again' AND due_at <= $1)
ORDER BY confirmed_at
LIMIT 500"""


async def get(reader: Reader, payment_request_id: str) -> PaymentRequest | None:
    """Return a request; None for an unknown id."""
    return await GET.first(reader, id=payment_request_id)


async def lock(tx: Tx, payment_request_id: str) -> PaymentRequest | None:
    """Lock a request and return it; None for an unknown id."""
    return await LOCK.first(tx, id=payment_request_id)


async def set_invoice(tx: Tx, payment_request_id: str, *, invoice_id: str, url: str | None) -> None:
    """Store the invoice that the gateway has just made, unless the request has another one, by which it was paid."""
    await SET_INVOICE.execute(
        tx, id=payment_request_id, invoice_id=invoice_id, url=url, now=tx.now, poll_at=tx.now + POLL_AFTER[0]
    )


async def claim_polls(tx: Tx, limit: int) -> list[PaymentRequest]:
    """Claim pending requests whose poll of the gateway is due, and set the time of their next poll.

    Each poll is claimed once. Several missed polls of a request count as one.
    """
    rows = await tx.fetch(f"{SQL['claim_polls']} {RETURNING}", tx.now, list(POLL_AFTER), limit)
    return many(PaymentRequest, rows)


async def give_polls_back(tx: Tx, payment_request_ids: Sequence[str]) -> None:
    """Make claimed polls due again, because they were not carried out."""
    await tx.execute(SQL["give_polls_back"], payment_request_ids, tx.now)


async def due(
    reader: Reader, *, now: dt.datetime, limit: int, after: PaymentRequest | None = None
) -> list[PaymentRequest]:
    """Return pending requests past their deadline, the oldest first; with `after`, only those that follow it."""
    rows = await reader.fetch(DUE, now, limit, after and after.expires_at, after and after.id)
    return many(PaymentRequest, rows)


async def keep_traceparent(tx: Tx, payment_request_id: str, traceparent: str) -> None:
    """Store the traceparent of a request's confirmation."""
    await KEEP_TRACEPARENT.execute(tx, id=payment_request_id, traceparent=traceparent)


async def traceparent(reader: Reader, payment_request_id: str) -> str | None:
    """Return the traceparent of a request's confirmation; None if it has none."""
    return await TRACEPARENT.value(reader, id=payment_request_id)


async def untarget(tx: Tx, payment_request_id: str) -> None:
    """Remove the targeted mitra of a confirmed request, which becomes a blast."""
    await UNTARGET.execute(tx, id=payment_request_id)


async def extension_under_way(reader: Reader, session_id: str, *, but: str | None = None) -> str | None:
    """Return the id of the payment request of a session's running extension, other than `but`, or None.

    An extension is running while it waits for the payment or for the mitra's answer.
    """
    return plain(await reader.fetchval(SQL["extension_under_way"], session_id, but))


async def next_paid(reader: Reader, customer_ids: list[str], payment: PaymentRequest) -> str | None:
    """Return the request that the account made next after a request for the same, if it was paid; None without one."""
    found = await reader.fetchval(
        SQL["next_paid"], customer_ids, payment.created_at, payment.id, payment.extends_session_id
    )
    return plain(found)


async def is_held(reader: Reader, session_id: str) -> bool:
    """Return whether a session still takes a place of its mitra, and so can be extended."""
    return bool(await reader.fetchval(SQL["is_held"], session_id))


async def keep_invoice(tx: Tx, payment_request_id: str, invoice_id: str) -> None:
    """Store the invoice by which a request was paid, if it has none yet."""
    await KEEP_INVOICE.execute(tx, id=payment_request_id, invoice_id=invoice_id)


async def keep_channel(tx: Tx, payment_request_id: str, channel: str) -> None:
    """Store the channel by which a request was paid, if it has none yet."""
    await KEEP_CHANNEL.execute(tx, id=payment_request_id, channel=channel)


async def of_invoice(reader: Reader, invoice_id: str) -> str | None:
    """Return the id of the request that an invoice belongs to, or None. One payment must pay for one request only."""
    return await OF_INVOICE.value(reader, invoice_id=invoice_id)


async def give_invoice_up(tx: Tx, payment_request_id: str) -> None:
    """Forget the invoice of a request, because its payment is not this request's money."""
    await GIVE_INVOICE_UP.execute(tx, id=payment_request_id)


async def was_confirmed_by_hand(reader: Reader, payment_request_id: str) -> bool:
    """Return whether an operator has confirmed a request by hand."""
    return bool(await reader.fetchval(SQL["by_hand"], payment_request_id))


async def confirmed_without_chat(reader: Reader, *, before: dt.datetime) -> list[PaymentRequest]:
    """Return at most 500 requests that were confirmed by `before` and have no session or extension: pairing never
    began."""
    return many(PaymentRequest, await reader.fetch(CONFIRMED_WITHOUT_CHAT, before))


async def open_free_request(
    reader: Reader, customer_ids: list[str], *, extends_session_id: str | None = None
) -> str | None:
    """Return the id of the account's failed request at a price of 0 on which no operator has acted; None if there is
    none.

    It is a request for a chat; with `extends_session_id`, one for more minutes of that session.
    """
    return plain(await reader.fetchval(SQL["open_free_request"], customer_ids, extends_session_id))


@attrs.frozen(kw_only=True)
class InProgress:
    """What keeps a customer from starting a session: a live session, or a confirmed request (then `session_id` is
    None)."""

    session_id: str | None
    payment_request_id: str | None

    @property
    def details(self) -> dict[str, str | None]:
        """The `details` of the refusal, by which an app can open what there is."""
        found = {"session_id": self.session_id}
        return found if self.payment_request_id is None else {**found, "payment_request_id": self.payment_request_id}


async def in_progress(reader: Reader, customer_ids: list[str], *, but: str | None) -> InProgress | None:
    """Return the customer's live session, or else their confirmed request that is not for an extension; None without
    either.

    The request `but` and its session don't count.
    """
    return one(InProgress, await reader.fetchrow(SQL["in_progress"], customer_ids, but))
