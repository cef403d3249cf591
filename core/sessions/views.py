"""A session as its parties see it (contract 5)."""

import datetime as dt
from typing import Any

import attrs

from core.base.actor import UserType
from core.base.customer_names import ACCOUNT, NAME
from core.storage.reads import Reader
from core.storage.records import as_dict

# A session with its parties' names and each side's unread count.
VIEW = f"""SELECT s.id, s.customer_id, {NAME} AS customer_name, s.mitra_id, m.display_name AS mitra_name, s.mode,
    s.status, s.topics, s.topic_sensitivity, s.duration_minutes, s.extended_minutes, s.price, s.is_first_session_discount,
    s.created_at, s.paired_at, s.expires_at, s.ended_at, s.ended_by, s.last_seq, s.payment_request_id,
    CASE WHEN s.last_seq > s.customer_read_seq THEN (SELECT count(*)::int FROM chat_messages x WHERE x.session_id = s.id
      AND x.seq > s.customer_read_seq AND x.sender_type <> 'customer') ELSE 0 END AS customer_unread,
    CASE WHEN s.last_seq > s.mitra_read_seq THEN (SELECT count(*)::int FROM chat_messages x WHERE x.session_id = s.id
      AND x.seq > s.mitra_read_seq AND x.sender_type <> 'mitra') ELSE 0 END AS mitra_unread
  FROM chat_sessions s JOIN customers c ON c.id = s.customer_id {ACCOUNT} LEFT JOIN mitras m ON m.id = s.mitra_id"""


@attrs.frozen(kw_only=True)
class Person:
    """A party, by the name that the other one may see."""

    id: str
    display_name: str | None


@attrs.frozen(kw_only=True)
class SessionView:
    """The session of contract 5. `unread_count` is the viewing side's."""

    id: str
    customer: Person
    mitra: Person | None
    mode: str
    status: str
    topics: list[str] | None
    topic_sensitivity: str
    duration_minutes: int | None
    extended_minutes: int
    price: int
    is_first_session_discount: bool
    created_at: dt.datetime
    paired_at: dt.datetime | None
    expires_at: dt.datetime | None
    ended_at: dt.datetime | None
    ended_by: str | None
    last_seq: int
    unread_count: int


@attrs.frozen(kw_only=True)
class TwoSided:
    """One session, seen from both sides."""

    customer: SessionView
    mitra: SessionView
    payment_request_id: str | None

    def seen_by(self, side: UserType) -> SessionView:
        """The side's view."""
        return self.mitra if side is UserType.MITRA else self.customer


def two_sided(row: Any) -> TwoSided:
    """Build both views out of a row of VIEW."""
    values = as_dict(row)
    customer = Person(id=values.pop("customer_id"), display_name=values.pop("customer_name"))
    mitra_id, mitra_name = values.pop("mitra_id"), values.pop("mitra_name")
    mitra = Person(id=mitra_id, display_name=mitra_name) if mitra_id else None
    customer_unread, mitra_unread = values.pop("customer_unread"), values.pop("mitra_unread")
    payment_request_id = values.pop("payment_request_id")
    base = {**values, "customer": customer, "mitra": mitra}
    return TwoSided(
        customer=SessionView(**base, unread_count=customer_unread),
        mitra=SessionView(**base, unread_count=mitra_unread),
        payment_request_id=payment_request_id,
    )


async def by_ids(reader: Reader, session_ids: list[str]) -> list[TwoSided]:
    """Read sessions by id."""
    return [two_sided(row) for row in await reader.fetch(f"{VIEW} WHERE s.id = ANY($1)", session_ids)]


async def one_of(reader: Reader, session_id: str, *, party_ids: list[str], side: UserType) -> SessionView | None:
    """Read a session as a party sees it; None for strangers. A customer sees her own in every state."""
    column = "s.mitra_id" if side is UserType.MITRA else "s.customer_id"
    row = await reader.fetchrow(f"{VIEW} WHERE s.id = $1 AND {column} = ANY($2)", session_id, party_ids)
    return None if row is None else two_sided(row).seen_by(side)


async def open_of_all(
    reader: Reader, party_ids: list[str], side: UserType, statuses: list[str]
) -> dict[str, list[SessionView]]:
    """Read several parties' sessions in some states, newest first, by the party."""
    column = "mitra_id" if side is UserType.MITRA else "customer_id"
    rows = await reader.fetch(
        f"{VIEW} WHERE s.{column} = ANY($1) AND s.status = ANY($2) ORDER BY s.created_at DESC", party_ids, statuses
    )
    found: dict[str, list[SessionView]] = {}
    for row in rows:
        found.setdefault(str(row[column]), []).append(two_sided(row).seen_by(side))
    return found


async def open_of(reader: Reader, party_ids: list[str], side: UserType, statuses: list[str]) -> list[SessionView]:
    """Read a party's sessions in some states, newest first."""
    found = await open_of_all(reader, party_ids, side, statuses)
    return sorted((view for views in found.values() for view in views), key=lambda view: view.created_at, reverse=True)
