"""Texts that people wrote: goodbyes, topics, reasons, notes, and what went wrong with a call of the gateway.

Operators read them with `customers.pii` only, and each page of them leaves an audit row (docs/product.md#audit-log).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from core.accounts.operators.rules import allows
from core.base.actor import Actor
from core.desk import disclosure
from core.runtime.container import Runtime
from core.sessions.views import SessionView


def readable(actor: Actor) -> bool:
    """Return whether the operator may read texts that people wrote."""
    return allows(actor.permissions, "customers.pii", "read")


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
            await disclosure.several(runtime, self.actor, object_type=object_type, ids=self.ids, fields=fields)
        else:
            await disclosure.one(runtime, self.actor, object_type=object_type, object_id=self.ids[0], fields=fields)


def in_session(view: SessionView, *, may_read: bool) -> SessionView:
    """Return a session with its topics and goodbyes, hidden unless `may_read`."""
    if may_read:
        return view
    topics = None if view.topics is None else [hidden(topic) or "" for topic in view.topics]
    closures = [attrs.evolve(one, message=hidden(one.message) or "") for one in view.closures]
    return attrs.evolve(view, topics=topics, closures=closures)


async def note_sessions(runtime: Runtime, actor: Actor, shown: Sequence[SessionView], *, listed: bool) -> None:
    """Write the audit row about the topics and goodbyes that the operator reads. Raises Unavailable."""
    reading = Reading(actor=actor)
    for one in shown:
        reading.add(one.id, closures=[goodbye for goodbye in one.closures if goodbye.message], topics=one.topics)
    await reading.note(runtime, "session", listed=listed)
