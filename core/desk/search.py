"""One search over everything that operators look for: people, chats, payments, failures and webhook calls."""

import attrs

from core.accounts.operators.rules import allows
from core.base import field_messages
from core.base.actor import Actor
from core.base.errors import NotFound, ValidationFailed
from core.base.ids import parse_id
from core.base.pages import Page
from core.desk import disclosure, failed_pairings, people, support, webhook_calls
from core.desk.failed_pairings import FailedPairing, FailureFilter
from core.desk.people import CustomerForOperators, MitraForOperators
from core.desk.support import LookUp, SupportPayment, SupportSession
from core.desk.webhook_calls import WebhookFilter, WebhookLogView
from core.runtime.container import Runtime

FIRST = Page(limit=10)
LONGEST = 200  # characters; more than any name, e-mail address or id


@attrs.frozen(kw_only=True)
class Found:
    """What a search has found, the newest ten of each kind. Kinds that the operator may not read are empty."""

    customers: list[CustomerForOperators]
    mitras: list[MitraForOperators]
    sessions: list[SupportSession]
    payments: list[SupportPayment]
    failures: list[FailedPairing]
    webhook_calls: list[WebhookLogView]


async def search(runtime: Runtime, actor: Actor, q: str) -> Found:
    """Return what has this name, phone number, e-mail address, id, invoice id or amount.

    Each kind is found and shown as in its list, with the same audit rows. Payments, chats and failures of customers who
    were found by their phone number or e-mail address are found, too. Raises ValidationFailed, RateLimited,
    Unavailable.
    """
    q = q.strip()
    if not 1 <= len(q) <= LONGEST:
        raise ValidationFailed.of("q", field_messages.length(1, LONGEST))

    def may_read(area: str) -> bool:
        return allows(actor.permissions, area, "read")

    by_phone = await disclosure.with_phone(runtime, actor, q)
    which = LookUp(q=q, customer_ids=by_phone)
    customers = (await support.customers(runtime, actor, FIRST, which)).items if may_read("customers") else []
    if any(map(may_read, ("sessions", "payments", "failed_pairings"))):  # once for all three
        accounts = await support.accounts_named(runtime, q, also=[*by_phone, *(one.id for one in customers)])
        which = attrs.evolve(which, accounts=accounts)
    failures = FailureFilter(q=q, accounts=which.accounts, superseded=None)
    calls = WebhookFilter(q=q, bodies=False)
    return Found(
        customers=customers,
        mitras=await _mitras(runtime, q) if may_read("mitras") else [],
        sessions=(await support.sessions(runtime, actor, FIRST, which)).items if may_read("sessions") else [],
        payments=(await support.payments(runtime, actor, FIRST, which)).items if may_read("payments") else [],
        failures=(await failed_pairings.failed_pairings(runtime, actor, FIRST, failures)).items
        if may_read("failed_pairings")
        else [],
        webhook_calls=(await webhook_calls.webhook_calls(runtime, actor, FIRST, calls)).items
        if may_read("webhooks")
        else [],
    )


async def _mitras(runtime: Runtime, q: str) -> list[MitraForOperators]:
    """Return the mitra with this id, or those with this name or phone number."""
    mitra_id = parse_id(q)
    if mitra_id is None:
        return (await people.mitras_for_operator(runtime, FIRST, q=q, is_active=None, is_online=None)).items
    try:
        return [await people.mitra_for_operator(runtime, mitra_id)]
    except NotFound:
        return []
