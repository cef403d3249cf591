"""Personal data that operators see: what is hidden from them, and the audit row about what is not.

An exact phone number finds its customer without `customers.pii`, too: it reveals nothing to an operator who has it from
the caller. So that numbers can't be tried out, these look-ups are few, and each leaves an audit row.

Phones, e-mails and texts that people wrote (goodbyes, topics, reasons, notes, and what went wrong with a call of the
gateway) are read with `customers.pii` only. Each page of them leaves an audit row, which is the only write of a read
(docs/product.md#audit-log). If it can't be written, the data is not returned.
"""

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from core.accounts.operators import store as operators
from core.accounts.operators.rules import allows
from core.base import phones
from core.base.actor import Actor
from core.base.errors import ValidationFailed
from core.bus.rate_limit import RateLimited
from core.runtime.container import Runtime
from core.sessions.views import SessionView
from core.telemetry import metrics

PHONE_LOOK_UP = "customer.phone_searched"
PHONES_AN_HOUR = 30  # for each operator without `customers.pii`
HOUR = dt.timedelta(hours=1)
WITH_PHONE = """SELECT id
FROM customers
WHERE phone = $1"""
# How many numbers an operator has looked up since $3, and when the oldest of these look-ups was.
LOOKED_UP = """SELECT
  count(*)::int AS number,
  min(created_at) AS oldest_at
FROM operator_audit_log
WHERE action = $1 AND operator_id = $2 AND created_at > $3"""


async def with_phone(runtime: Runtime, actor: Actor, q: str | None) -> list[str]:
    """Return the ids of the customers with the phone number `q`, in any notation. A text that is not a phone number has
    no customers.

    Without `customers.pii` the look-up is counted, whether or not it finds a customer. Raises RateLimited above
    PHONES_AN_HOUR, and Unavailable if the audit row can't be written.
    """
    try:
        number = phones.normalise(q or "", countries=runtime.settings.otp_countries)
    except ValidationFailed:
        return []
    if not readable(actor):
        await _count_look_up(runtime, actor, number)
    return [str(row["id"]) for row in await runtime.db.fetch(WITH_PHONE, number)]


async def _count_look_up(runtime: Runtime, actor: Actor, number: str) -> None:
    async with runtime.transaction() as tx:
        await operators.lock(tx, actor.user_id)  # so that look-ups at the same moment are counted one after the other
        row = await tx.fetchrow(LOOKED_UP, PHONE_LOOK_UP, actor.user_id, tx.now - HOUR)
        if row["number"] >= PHONES_AN_HOUR:
            metrics.LIMITED.labels("phone_look_ups").inc()
            wait = row["oldest_at"] + HOUR - tx.now
            raise RateLimited(retry_after_seconds=max(1, math.ceil(wait.total_seconds())))
        after = {"phone_hash": runtime.keys.account_hash(number)}
        await operators.audit(tx, actor.user_id, PHONE_LOOK_UP, "customer", operators.LIST, after=after)


async def one(runtime: Runtime, actor: Actor, *, object_type: str, object_id: str, fields: list[str]) -> None:
    """Record that the operator reads these fields of one object. Raises Unavailable."""
    await _note(runtime, actor, object_type, object_id, {"fields": fields})


async def several(runtime: Runtime, actor: Actor, *, object_type: str, ids: Sequence[str], fields: list[str]) -> None:
    """Record in one row that the operator reads these fields of several objects. Without objects no row is written.

    Raises Unavailable.
    """
    if ids:
        await _note(runtime, actor, object_type, operators.LIST, {"fields": fields, "ids": ids})


async def _note(
    runtime: Runtime, actor: Actor, object_type: str, object_id: str, after: Mapping[str, Sequence[str]]
) -> None:
    async with runtime.transaction() as tx:
        await operators.audit(tx, actor.user_id, f"{object_type}.read", object_type, object_id, after=after)


def readable(actor: Actor) -> bool:
    """Return whether the operator may read texts that people wrote."""
    return allows(actor.permissions, "customers.pii", "read")


def unread(actor: Actor) -> Actor:
    """Return the operator as one who reads no texts: they are hidden, and no audit row is written."""
    return attrs.evolve(actor, permissions={})


def masked_contact(text: str | None) -> str | None:
    """Return a phone number or e-mail address with its middle masked."""
    if text is None:
        return None
    name, at, domain = text.partition("@")
    return f"{name[:1]}***{at}{domain}" if at else f"{text[:4]}****{text[-2:]}"


def hidden(text: str | None) -> str | None:
    """Return what stands for a text that the operator may not read. No text stays none."""
    if not text:
        return text
    words = len(text.split())
    return f"{words} {'word' if words == 1 else 'words'}, hidden"


def row_as(row: Any, *fields: str, may_read: bool) -> Mapping[str, Any]:
    """Return a row of the database with the texts in `fields` hidden unless `may_read`."""
    return row if may_read else {**row, **{name: hidden(row[name]) for name in fields}}


@attrs.define(kw_only=True)
class Reading:
    """The texts of one page that an operator reads: which objects have some, and in which fields."""

    actor: Actor
    ids: list[str] = attrs.field(factory=list)
    fields: set[str] = attrs.field(factory=set)

    def add(self, object_id: str, **texts: Any) -> None:
        """Add an object with its texts by their fields; those that are empty don't count."""
        if found := {name for name, text in texts.items() if text}:
            self.ids.append(object_id)
            self.fields |= found

    async def note(self, runtime: Runtime, object_type: str, *, listed: bool) -> None:
        """Write the audit row about the texts, if there are any and the operator may read them. Raises Unavailable."""
        if not self.ids or not readable(self.actor):
            return
        fields = sorted(self.fields)
        if listed:
            await several(runtime, self.actor, object_type=object_type, ids=self.ids, fields=fields)
        else:
            await one(runtime, self.actor, object_type=object_type, object_id=self.ids[0], fields=fields)


def in_session(view: SessionView, *, may_read: bool) -> SessionView:
    """Return a session with its topics and goodbyes, hidden unless `may_read`."""
    if may_read:
        return view
    topics = None if view.topics is None else [hidden(topic) or "" for topic in view.topics]
    closures = [attrs.evolve(goodbye, message=hidden(goodbye.message) or "") for goodbye in view.closures]
    return attrs.evolve(view, topics=topics, closures=closures)


async def note_sessions(runtime: Runtime, actor: Actor, shown: Sequence[SessionView], *, listed: bool) -> None:
    """Write the audit row about the topics and goodbyes that the operator reads. Raises Unavailable."""
    reading = Reading(actor=actor)
    for view in shown:
        goodbyes = [goodbye for goodbye in view.closures if goodbye.message]
        reading.add(view.id, closures=goodbyes, topics=view.topics)
    await reading.note(runtime, "session", listed=listed)
