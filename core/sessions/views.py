"""A session as its parties see it."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs

from core.base.actor import UserType
from core.base.field_types import Count, Mode, Party, PaymentRequestId, Person, SessionId, Time
from core.sessions.rules import Closure, EndedBy, closures_for
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import SessionStatus
from core.storage.fragments import ACCOUNT, NAME
from core.storage.records import as_dict
from core.storage.transaction import Reader

# The goodbyes of a session `s`; null before `closing`, when there can be none.
CLOSURES = """CASE
    WHEN is_ended(s.status)
      THEN ARRAY(
        SELECT (k.user_type, k.message, k.created_at, s.blanked_at IS NOT NULL)
        FROM session_closures AS k
        WHERE k.session_id = s.id
        ORDER BY k.created_at, k.id
      )
  END AS closures"""
# A session with its parties' names and each side's unread count. `asked` is null unless the session is searching.
VIEW = f"""SELECT
  s.id,
  s.customer_id,
  {NAME} AS customer_name,
  s.mitra_id,
  m.display_name AS mitra_name,
  s.mode,
  s.status,
  s.topics,
  s.topic_sensitivity,
  s.duration_minutes,
  s.extended_minutes,
  s.price,
  s.is_first_session_discount,
  s.created_at,
  s.paired_at,
  s.expires_at,
  s.ended_at,
  s.ended_by,
  s.last_seq,
  s.payment_request_id,
  s.round_ends_at,
  s.search_ends_at,
  s.grace_ends_at,
  CASE
    WHEN s.status = 'searching'
      THEN (
        SELECT count(DISTINCT n.mitra_id)::int
        FROM chat_request_notifications AS n
        WHERE n.session_id = s.id
      )
  END AS asked,
  {CLOSURES},
  CASE
    WHEN s.last_seq > s.customer_read_seq
      THEN (
        SELECT count(*)::int
        FROM chat_messages AS x
        WHERE x.session_id = s.id AND x.seq > s.customer_read_seq AND x.sender_type <> 'customer'
      )
    ELSE 0
  END AS customer_unread,
  CASE
    WHEN s.last_seq > s.mitra_read_seq
      THEN (
        SELECT count(*)::int
        FROM chat_messages AS x
        WHERE x.session_id = s.id AND x.seq > s.mitra_read_seq AND x.sender_type <> 'mitra'
      )
    ELSE 0
  END AS mitra_unread
FROM chat_sessions AS s
JOIN customers AS c ON c.id = s.customer_id
{ACCOUNT}
LEFT JOIN mitras AS m ON m.id = s.mitra_id"""
BY_IDS = f"""{VIEW}
WHERE s.id = ANY($1)"""
ONE_OF_CUSTOMER = f"""{VIEW}
WHERE s.id = $1 AND s.customer_id = ANY($2)"""
ONE_OF_MITRA = f"""{VIEW}
WHERE s.id = $1 AND s.mitra_id = ANY($2)"""
OPEN_OF_CUSTOMERS = f"""{VIEW}
WHERE s.customer_id = ANY($1) AND s.status = ANY($2)
ORDER BY s.created_at DESC"""
OPEN_OF_MITRAS = f"""{VIEW}
WHERE s.mitra_id = ANY($1) AND s.status = ANY($2)
ORDER BY s.created_at DESC"""
CLOSURES_OF = """SELECT
  k.session_id::text,
  k.user_type,
  k.message,
  k.created_at,
  s.blanked_at IS NOT NULL
FROM session_closures AS k
JOIN chat_sessions AS s ON s.id = k.session_id
WHERE k.session_id = ANY($1)
ORDER BY k.created_at, k.id"""


@attrs.frozen(kw_only=True)
class SessionSearchView:
    """A running search: how many mitras it has asked, the end of its round (`answer_by`), and the end of the search.

    Use `payment_request_id` to cancel the search or to fall back to a blast.
    """

    asked: Count
    answer_by: Time
    ends_at: Time
    payment_request_id: PaymentRequestId


@attrs.frozen(kw_only=True)
class SessionView:
    """A chat session as the caller sees it.

    `unread_count` is that of the caller's side. `search` is set only while the session searches, `grace_ends_at` only
    while it is expired or closing: the session is completed by then. `closures` has the caller's goodbye, and the other
    party's once the caller has written one or the session is completed.
    """

    id: SessionId
    customer: Person
    mitra: Person | None
    mode: Mode
    status: SessionStatus = attrs.field(converter=SessionStatus)
    topics: list[str] | None
    topic_sensitivity: Sensitivity = attrs.field(converter=Sensitivity)
    duration_minutes: int | None
    extended_minutes: int
    price: int
    is_first_session_discount: bool
    created_at: Time
    paired_at: Time | None
    expires_at: Time | None
    ended_at: Time | None
    ended_by: EndedBy | None
    last_seq: int
    unread_count: int
    search: SessionSearchView | None
    grace_ends_at: Time | None
    closures: Sequence[Closure]


@attrs.frozen(kw_only=True)
class TwoSided:
    """One session as each of its two sides sees it. `closures` has all goodbyes."""

    customer: SessionView
    mitra: SessionView
    payment_request_id: PaymentRequestId | None
    closures: list[Closure]

    def seen_by(self, side: UserType) -> SessionView:
        """Return the view of one side."""
        return self.mitra if side is UserType.MITRA else self.customer


def two_sided(row: Any) -> TwoSided:
    """Build both sides' views from a row of VIEW."""
    values = as_dict(row)
    customer = Person(id=values.pop("customer_id"), display_name=values.pop("customer_name"))
    mitra_id, mitra_name = values.pop("mitra_id"), values.pop("mitra_name")
    mitra = Person(id=mitra_id, display_name=mitra_name) if mitra_id else None
    customer_unread, mitra_unread = values.pop("customer_unread"), values.pop("mitra_unread")
    payment_request_id = values.pop("payment_request_id")
    search = _search(values, payment_request_id)
    status = SessionStatus(values["status"])
    closures = closures_in(values)
    base = {**values, "customer": customer, "mitra": mitra, "search": search}
    return TwoSided(
        customer=SessionView(
            **base, unread_count=customer_unread, closures=closures_for(UserType.CUSTOMER, closures, status)
        ),
        mitra=SessionView(**base, unread_count=mitra_unread, closures=closures_for(UserType.MITRA, closures, status)),
        payment_request_id=payment_request_id,
        closures=closures,
    )


def closures_in(values: dict[str, Any]) -> list[Closure]:
    """Remove the column of CLOSURES from a row and return its goodbyes."""
    return [_closure(*row) for row in values.pop("closures") or ()]


def _closure(side: Party, text: str, at: dt.datetime, blanked: bool) -> Closure:
    return Closure(user_type=side, message=text, created_at=at, blanked=blanked)


def _search(values: dict[str, Any], payment_request_id: PaymentRequestId) -> SessionSearchView | None:
    """Remove the search's columns from a row and return them as a view; None unless the session is searching."""
    asked, answer_by, ends_at = values.pop("asked"), values.pop("round_ends_at"), values.pop("search_ends_at")
    if asked is None:
        return None
    return SessionSearchView(asked=asked, answer_by=answer_by, ends_at=ends_at, payment_request_id=payment_request_id)


async def by_ids(reader: Reader, session_ids: Sequence[str]) -> list[TwoSided]:
    """Return the sessions with these ids."""
    return [two_sided(row) for row in await reader.fetch(BY_IDS, session_ids)]


async def closures_of(reader: Reader, session_ids: list[str]) -> dict[str, list[Closure]]:
    """Return session id -> its goodbyes, the oldest first. A session without any is left out."""
    rows = await reader.fetch(CLOSURES_OF, session_ids)
    found: dict[str, list[Closure]] = {}
    for session_id, *closure in rows:
        found.setdefault(session_id, []).append(_closure(*closure))
    return found


async def one_of(reader: Reader, session_id: str, *, party_ids: list[str], side: UserType) -> SessionView | None:
    """Return a session in any state as a party sees it; None if none of `party_ids` is this side's party."""
    statement = ONE_OF_MITRA if side is UserType.MITRA else ONE_OF_CUSTOMER
    row = await reader.fetchrow(statement, session_id, party_ids)
    return None if row is None else two_sided(row).seen_by(side)


async def open_of_all(
    reader: Reader, party_ids: list[str], side: UserType, statuses: list[str]
) -> dict[str, list[SessionView]]:
    """Return party id -> their sessions in these states, the newest first. A party without any is left out."""
    of_mitras = side is UserType.MITRA
    rows = await reader.fetch(OPEN_OF_MITRAS if of_mitras else OPEN_OF_CUSTOMERS, party_ids, statuses)
    found: dict[str, list[SessionView]] = {}
    for row in rows:
        found.setdefault(str(row["mitra_id" if of_mitras else "customer_id"]), []).append(two_sided(row).seen_by(side))
    return found


async def open_of(reader: Reader, party_ids: list[str], side: UserType, statuses: list[str]) -> list[SessionView]:
    """Return the sessions in these states of one party, known by several ids, the newest first."""
    found = await open_of_all(reader, party_ids, side, statuses)
    return sorted((view for views in found.values() for view in views), key=lambda view: view.created_at, reverse=True)
