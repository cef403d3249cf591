"""The forms of calls whose plans `sesi grow --plans` checks, beyond the usual one: filters, searches, further pages."""

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

from core.accounts.customers import store as customers
from core.base import ids
from core.base.actor import UserType
from core.base.pages import Page
from core.deliveries import store as deliveries
from core.desk import activity, failed_pairings, people, support, webhook_calls
from core.desk.activity import ActivityFilter
from core.desk.audit_log import AuditFilter, audit_log
from core.desk.failed_pairings import FailureFilter
from core.desk.support import LookUp
from core.desk.webhook_calls import WebhookFilter
from core.sessions import histories, own_lists, views
from core.sessions.messages import chats
from tools.bench.plan_calls import Caller, PlannedCall


def forms(caller: Caller) -> Iterator[PlannedCall]:
    """Yield the further forms of reads: filters, searches, the next page, the other party."""
    since, until = caller.now - dt.timedelta(days=60), caller.now - dt.timedelta(days=30)
    deep = Page(before_at=caller.now - dt.timedelta(days=180), before_id=caller.text["session_id"])
    yield from _look_ups(caller, deep, since, until)
    yield from _failed_pairings(deep)
    yield from _webhook_calls(caller, deep, since, until)
    yield from _activity(caller, deep, since, until)
    yield from _chats(caller, deep)
    yield from _own(caller, deep)
    yield from _audit_log(caller, since, until)
    yield from _together(caller)


def _call(function: Callable[..., Any], form: str, **with_: Any) -> PlannedCall:
    return PlannedCall(function=function, form=form, with_=with_)


def _look_ups(caller: Caller, deep: Page, since: dt.datetime, until: dt.datetime) -> Iterator[PlannedCall]:
    """Yield the look-ups of support: by name, id, number, invoice, state and time."""
    for look in (support.customers, support.sessions, support.payments):
        yield _call(look, "a name", which=LookUp(q="Indra"))
        yield _call(look, "an unknown name", which=LookUp(q="Zebulon"))
        yield _call(look, "an id", which=LookUp(q=caller.text["customer_id"]))
        yield _call(look, "an unknown id", which=LookUp(q=ids.new_id()))
        yield _call(look, "deep", page=deep)
    yield _call(support.customers, "a number", which=LookUp(q=caller.text["phone"][-8:]))
    yield _call(support.payments, "an invoice", which=LookUp(q=caller.text["invoice_id"]))
    yesterday = caller.now - dt.timedelta(days=1)
    yield _call(support.sessions, "no result in a state", which=LookUp(status="searching", until=yesterday))
    yield _call(support.payments, "no result in a state", which=LookUp(status="confirmed", until=yesterday))
    yield _call(support.sessions, "before all", which=LookUp(until=caller.now - dt.timedelta(days=800)))
    yield _call(support.sessions, "a mitra", which=LookUp(q=caller.text["mitra_id"]))
    yield _call(support.sessions, "a name of a state", which=LookUp(q="Indra", status="closing"))
    for look, states in ((support.sessions, ("completed", "closing")), (support.payments, ("consumed", "pending"))):
        for state in states:
            yield _call(look, state, which=LookUp(status=state))
        yield _call(look, "a month", which=LookUp(since=since, until=until))


def _failed_pairings(deep: Page) -> Iterator[PlannedCall]:
    """Yield the filters of failed pairings."""
    for tag in ("no_mitra_available", "payment_session_expired"):
        yield _call(failed_pairings.failed_pairings, tag, which=FailureFilter(cause_tag=tag))
    filters = {
        "open": FailureFilter(operator_action="none"),
        "oldest": FailureFilter(operator_action="none", oldest_first=True),
        "no result": FailureFilter(cause_tag="targeted_mitra_offline"),
        "refunded": FailureFilter(operator_action="refunded"),
        "superseded": FailureFilter(superseded=True),
    }
    for form, which in filters.items():
        yield _call(failed_pairings.failed_pairings, form, which=which)
    yield _call(failed_pairings.failed_pairings, "deep", page=deep)


def _webhook_calls(caller: Caller, deep: Page, since: dt.datetime, until: dt.datetime) -> Iterator[PlannedCall]:
    """Yield the filters of webhook calls."""
    read = webhook_calls.webhook_calls
    yield _call(read, "unknown", which=WebhookFilter(q=ids.new_id()))
    for result in ("confirmed", "late_payment_recorded", "error"):
        yield _call(read, result, which=WebhookFilter(processing_result=result))
    yield _call(read, "of one request", which=WebhookFilter(q=caller.text["payment_request_id"]))
    yield _call(read, "an invoice", which=WebhookFilter(q=caller.text["invoice_id"]))
    yield _call(read, "a month", which=WebhookFilter(since=since, until=until))
    yield _call(read, "deep", page=deep)


def _activity(caller: Caller, deep: Page, since: dt.datetime, until: dt.datetime) -> Iterator[PlannedCall]:
    """Yield the forms of the mitras' activity, and the search for a mitra."""
    yield _call(activity.log, "a mitra", which=ActivityFilter(mitra_id=caller.text["mitra_id"]))
    yield _call(activity.log, "a month", which=ActivityFilter(since=since, until=until))
    yield _call(activity.log, "deep", page=deep)
    yield _call(activity.summary, "a day", since=caller.now - dt.timedelta(days=1))
    yield _call(activity.summary, "30 days", since=None)
    yield _call(activity.summary, "one mitra", since=None, mitra_id=caller.text["mitra_id"])
    yield _call(people.mitras_for_operator, "a name", q="Indra")


def _chats(caller: Caller, deep: Page) -> Iterator[PlannedCall]:
    """Yield the forms of the chat's reads, such as the mitra's."""
    own_ids = [caller.text["mitra_id"]]
    yield _call(chats.messages, "behind", after=3)
    for read in (chats.session, chats.open_sessions):
        yield _call(read, "mitra", actor=caller.mitra)
    for read in (chats.snapshots, chats.progress_of_parties, views.open_of, views.open_of_all):
        yield _call(read, "mitra", side=UserType.MITRA, party_ids=own_ids)
    yield _call(histories.mitra_history, "deep", page=deep)
    yield _call(views.one_of, "mitra", side=UserType.MITRA)


def _own(caller: Caller, deep: Page) -> Iterator[PlannedCall]:
    """Yield the further forms of a customer's own lists, after the first page."""
    for read in (own_lists.payment_requests, own_lists.sessions, own_lists.transactions):
        yield PlannedCall(function=read, form="deep", with_={"page": deep})
    yield PlannedCall(function=own_lists.sessions, form="a mitra", with_={"mitra_id": caller.text["mitra_id"]})
    yield PlannedCall(function=own_lists.sessions, form="none of a state", with_={"status": "searching"})


def _audit_log(caller: Caller, since: dt.datetime, until: dt.datetime) -> Iterator[PlannedCall]:
    """Yield a call for each filter of the operators' audit log."""
    filters = {
        "an operator": AuditFilter(operator_id=caller.text["operator_id"]),
        "an action": AuditFilter(action="mitra.created"),
        "a kind of object": AuditFilter(object_type="role"),
        "an object": AuditFilter(object_id=caller.text["customer_id"]),
        "a month": AuditFilter(since=since, until=until),
    }
    for form, which in filters.items():
        yield PlannedCall(function=audit_log, form=form, with_={"which": which})


def _together(caller: Caller) -> Iterator[PlannedCall]:
    """Yield the reads of a hub for all users who reconnect after an outage."""
    for side, party_ids in caller.many.items():
        form = f"{len(party_ids)} {side.value}s"
        for read in (chats.snapshots, chats.progress_of_parties, views.open_of_all):
            yield PlannedCall(function=read, form=form, with_={"side": side, "party_ids": party_ids})
        yield PlannedCall(function=deliveries.unacknowledged, form=form, with_={"recipient_ids": party_ids})
    together = caller.many[UserType.CUSTOMER]
    yield PlannedCall(
        function=customers.ids_of_all, form=f"{len(together)} customers", with_={"customer_ids": together}
    )
