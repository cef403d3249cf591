"""The timeline of one payment: everything that happened to it, in order, and why it led to no chat, if so.

Each source is read once, and each of its rows becomes a line of text. The sentence about why there was no chat depends
only on the payment's state and its live failure, not on the lines.
"""

import datetime as dt
from typing import Any, Literal, get_args

import attrs

from core.base.errors import NotFound
from core.base.field_types import Id, MitraId, SessionId
from core.pairing_failures.causes import CauseTag
from core.reads.support import SupportPayment, payment
from core.runtime import Runtime
from core.storage.records import plain
from core.transactions import translate_db_errors

# Every kind of entry, in the order of entries with the same time. A round's answers come before the next round's
# invitations.
EntryKind = Literal[
    "created",
    "deadline",
    "webhook",
    "confirmed_by_operator",
    "paid",
    "session",
    "tried_again",
    "search_began",
    "mitra_answered",
    "mitra_asked",
    "paired",
    "extension_asked",
    "ended_by_operator",
    "extension_answered",
    "extension_tripped",
    "earned",
    "search_cancelled",
    "search_failed",
    "failed",
    "session_expired",
    "goodbye",
    "session_closing",
    "session_completed",
    "operator_acted",
]
ORDER: tuple[EntryKind, ...] = get_args(EntryKind)


@attrs.frozen(kw_only=True)
class Entry:
    """One event of a payment's timeline."""

    at: dt.datetime
    kind: EntryKind
    text: str
    session_id: SessionId | None = None
    mitra_id: MitraId | None = None
    webhook_log_id: Id | None = None


@attrs.frozen(kw_only=True)
class Timeline:
    """The timeline of one payment. `why_no_chat` is null if there was a chat, or there may still be one."""

    payment: SupportPayment
    entries: list[Entry]
    why_no_chat: str | None


ENDED_BY_OPERATOR = "The customer paid, and an operator ended the search before a mitra accepted."
UNPAID = {
    "pending": "The customer has not paid yet.",
    "abandoned": "The request was abandoned before payment: the customer cancelled it or made a newer one, or the gateway created no invoice.",
    "expired": "The payment did not arrive in time.",
}
UNPAID_EXTENSION = "The request was abandoned before payment: the customer cancelled it, the gateway created no invoice, or the session ended."
DONE = {
    "refunded": "refunded the payment",
    "credited": "gave a credit",
    "no_action": "decided that no action is needed",
}
ANSWERS = {
    "ACCEPTED": "accepted",
    "REJECTED": "rejected the request",
    "MISSED": "was too late: another mitra had accepted",
    "IGNORED": "did not answer in time, or went offline",
    "CANCELLED": "had the request withdrawn: the customer cancelled or asked all mitras",
}

SESSIONS = """SELECT s.id, s.status, s.created_at, s.paired_at, s.expires_at, s.ended_at, s.ended_by, s.last_seq, s.targeted_mitra_id,
    coalesce(t.display_name, f.target_name) AS target_name, f.fell_back_at, s.mitra_id, m.display_name AS mitra_name,
    s.duration_minutes, s.extended_minutes
  FROM chat_sessions s LEFT JOIN mitras m ON m.id = s.mitra_id LEFT JOIN mitras t ON t.id = s.targeted_mitra_id
  -- An invitation that was taken back while the search went on: the customer asked everybody instead of the one mitra.
  LEFT JOIN LATERAL (SELECT n.responded_at AS fell_back_at, a.display_name AS target_name
    FROM chat_request_notifications n JOIN mitras a ON a.id = n.mitra_id
    WHERE n.session_id = s.id AND n.response = 'CANCELLED' AND (s.status <> 'cancelled' OR n.responded_at < s.ended_at)
    ORDER BY n.responded_at LIMIT 1) f ON true
  WHERE s.payment_request_id = $1 OR s.id = $2 ORDER BY s.created_at"""
ASKED = """SELECT n.session_id, n.mitra_id, m.display_name, n.round_number, n.notified_at, n.answer_by, n.response, n.responded_at
  FROM chat_request_notifications n JOIN mitras m ON m.id = n.mitra_id JOIN chat_sessions s ON s.id = n.session_id
  WHERE s.payment_request_id = $1 ORDER BY n.notified_at, n.id"""
FAILURES = """SELECT f.cause_tag, f.created_at, f.superseded_at, f.operator_action, f.actioned_at, o.display_name AS operator_name
  FROM pairing_failures f LEFT JOIN control_center_users o ON o.id = f.actioned_by WHERE f.payment_request_id = $1 ORDER BY f.created_at"""
# Anyone who knows an id can send calls without a token. Calls with a valid one come first, so the limit never drops
# them.
WEBHOOKS = """SELECT id, received_at, status, processing_result, http_status, processing_error, replay_of, source FROM webhook_logs
  WHERE external_id IN ($1, upper($1)) ORDER BY token_valid DESC, received_at LIMIT 500"""
AUDIT = """SELECT a.action, a.created_at, a.object_id, o.display_name AS operator_name, a.before ->> 'status' AS status,
    a.after ->> 'reason' AS reason FROM operator_audit_log a JOIN control_center_users o ON o.id = a.operator_id
  WHERE a.object_id = $1::text AND a.action = 'payment.confirmed'
    OR a.object_id IN (SELECT s.id::text FROM chat_sessions s WHERE s.payment_request_id = $1::text::uuid OR s.id = $2)
      AND a.action = 'session.ended'
  ORDER BY a.created_at"""
EXTENSIONS = """SELECT e.status, e.requested_at, e.answer_by, e.responded_at, e.session_id, e.requested_duration_minutes
  FROM session_extensions e WHERE e.payment_request_id = $1"""
CLOSURES = """SELECT c.session_id, c.user_type, c.message, c.created_at FROM session_closures c JOIN chat_sessions s ON s.id = c.session_id
  WHERE s.payment_request_id = $1 ORDER BY c.created_at"""


def _amount(idr: int) -> str:
    return "Rp " + f"{idr:,}".replace(",", ".")


def _of_payment(p: SupportPayment, audits: list[Any]) -> list[Entry]:
    what = f"{p.duration_minutes} minutes, {p.mode}, {_amount(p.amount)}"
    kind = (
        "an extension of"
        if p.is_extension
        else "a first session with discount of"
        if p.is_first_session_discount
        else "a session of"
    )
    found = [Entry(at=p.created_at, kind="created", text=f"The customer requested {kind} {what}.")]
    for row in audits:
        ended = row["action"] == "session.ended"
        did = (
            f"ended the session: {row['reason'] or 'the reason was erased'}"
            if ended
            else "confirmed the payment by hand."
        )
        found.append(
            Entry(
                at=row["created_at"],
                kind="ended_by_operator" if ended else "confirmed_by_operator",
                text=f"{row['operator_name']} {did}",
                session_id=row["object_id"] if ended else None,
            )
        )
    if p.confirmed_at is not None:
        found.append(Entry(at=p.confirmed_at, kind="paid", text=f"{_amount(p.amount)} received."))
    if p.consumed_at is not None:
        found.append(Entry(at=p.consumed_at, kind="earned", text="The payment became revenue."))
    if p.status == "expired" or (p.confirmed_at is not None and p.confirmed_at > p.expires_at):
        found.append(Entry(at=p.expires_at, kind="deadline", text="The time to pay ended."))
    return found


def _of_webhook(row: Any) -> Entry:
    again = " (replayed by an operator)" if row["replay_of"] else ""
    result = row["processing_result"] or "not answered yet"
    note = f": {row['processing_error']}" if row["processing_error"] else ""
    how = "was polled and answered" if row["source"] == "poll" else "called"
    text = f"The gateway {how}: {row['status'] or 'no status'}{again}. Result: {result}, {row['http_status'] or '-'}{note}."
    return Entry(at=row["received_at"], kind="webhook", text=text, webhook_log_id=plain(row["id"]))


def _of_session(row: Any, *, own: bool, by_operator: bool) -> list[Entry]:
    session_id = plain(row["id"])
    found: list[Entry] = []

    def add(at: dt.datetime | None, kind: EntryKind, text: str) -> None:
        if at is not None:
            found.append(Entry(at=at, kind=kind, text=text, session_id=session_id))

    if own:
        target = row["target_name"]
        add(
            row["created_at"],
            "search_began",
            f"The search for {target} started." if target else "The search started among all available mitras.",
        )
        add(row["fell_back_at"], "tried_again", "The customer asked all mitras instead, in the same search.")
        if row["paired_at"] is not None:
            add(row["paired_at"], "paired", f"{row['mitra_name']} accepted; the chat started.")
    elif row["paired_at"] is not None:
        add(row["paired_at"], "session", f"The session to extend had started, with {row['mitra_name']}.")
    ended_by = {"customer": "the customer", "mitra": "the mitra", "timer": "time", "operator": "an operator"}.get(
        row["ended_by"] or "", ""
    )
    if (
        row["status"] in ("expired", "closing", "completed")
        and row["expires_at"] is not None
        and (row["ended_at"] is None or row["expires_at"] <= row["ended_at"])
    ):
        add(row["expires_at"], "session_expired", "The paid time ended.")
    if row["status"] in ("closing", "completed") and row["ended_at"] is not None:
        messages = f"{row['last_seq']} messages were sent"
        add(
            row["ended_at"],
            "session_closing" if row["status"] == "closing" else "session_completed",
            f"The session is {row['status']}, ended by {ended_by}; {messages}.",
        )
    elif row["status"] in ("cancelled", "failed"):
        add(
            row["ended_at"],
            "search_cancelled" if row["status"] == "cancelled" else "search_failed",
            "The search ended without a mitra."
            if row["status"] == "failed"
            else "An operator ended the search."
            if by_operator
            else "The customer cancelled the search.",
        )
    return found


def _of_requests(rows: list[Any]) -> list[Entry]:
    found: list[Entry] = []
    for row in rows:
        session_id, mitra_id = plain(row["session_id"]), plain(row["mitra_id"])
        found.append(
            Entry(
                at=row["notified_at"],
                kind="mitra_asked",
                text=f"{row['display_name']} was invited (round {row['round_number']}).",
                session_id=session_id,
                mitra_id=mitra_id,
            )
        )
        if row["response"] is not None:
            found.append(
                Entry(
                    at=row["responded_at"],
                    kind="mitra_answered",
                    text=f"{row['display_name']} {ANSWERS[row['response']]}.",
                    session_id=session_id,
                    mitra_id=mitra_id,
                )
            )
    return found


def _why(cause: CauseTag, *, by_operator: bool) -> str:
    return ENDED_BY_OPERATOR if by_operator and cause is CauseTag.CUSTOMER_CANCELLED else cause.cause.explanation.en


def _of_failures(rows: list[Any], *, by_operator: bool) -> list[Entry]:
    found: list[Entry] = []
    for row in rows:
        found.append(
            Entry(
                at=row["created_at"],
                kind="failed",
                text=f"The payment led to no chat ({row['cause_tag']}): {_why(CauseTag(row['cause_tag']), by_operator=by_operator)}",
            )
        )
        if row["superseded_at"] is not None:
            found.append(
                Entry(
                    at=row["superseded_at"],
                    kind="tried_again",
                    text="The customer asked all mitras instead, with the same payment.",
                )
            )
        if row["operator_action"] is not None:
            found.append(
                Entry(
                    at=row["actioned_at"],
                    kind="operator_acted",
                    text=f"{row['operator_name']} {DONE[row['operator_action']]}.",
                )
            )
    return found


def _of_extension(row: Any) -> list[Entry]:
    session_id = plain(row["session_id"])
    minutes = row["requested_duration_minutes"]
    if row["status"] == "safeguard_tripped" and row["requested_at"] == row["responded_at"]:
        return [
            Entry(
                at=row["requested_at"],
                kind="extension_tripped",
                text="The session could no longer be extended, so the mitra was not asked.",
                session_id=session_id,
            )
        ]
    found = [
        Entry(
            at=row["requested_at"],
            kind="extension_asked",
            text=f"The mitra was asked to extend by {minutes} minutes.",
            session_id=session_id,
        )
    ]
    words = {
        "approved": "The mitra approved; the session continued.",
        "auto_approved": "The mitra did not answer, which counted as approval; the session continued.",
        "rejected": "The mitra rejected, or did not answer, which counted as a rejection.",
        "safeguard_tripped": "The session ended before the mitra answered.",
    }
    if row["status"] in words:
        found.append(
            Entry(at=row["responded_at"], kind="extension_answered", text=words[row["status"]], session_id=session_id)
        )
    return found


def why_no_chat(p: SupportPayment, *, by_operator: bool) -> str | None:
    """Return a sentence about why there was no chat; None if there was one, or there may still be one.

    `by_operator`: an operator ended the search.
    """
    if p.status in UNPAID:
        return UNPAID_EXTENSION if p.is_extension and p.status == "abandoned" else UNPAID[p.status]
    return _why(p.failure.cause_tag, by_operator=by_operator) if p.failure is not None else None


async def timeline(runtime: Runtime, payment_request_id: str) -> Timeline:
    """Return the timeline of a payment.

    Raises NotFound for an unknown id.
    """
    found = await payment(runtime, payment_request_id)
    extended = found.session_id if found.is_extension else None
    entries: list[Entry] = []
    with translate_db_errors():
        db = runtime.db
        audits = await db.fetch(AUDIT, payment_request_id, extended)
        by_operator = any(row["status"] == "searching" for row in audits)
        entries += _of_payment(found, audits)
        entries += [_of_webhook(row) for row in await db.fetch(WEBHOOKS, payment_request_id)]
        for row in await db.fetch(SESSIONS, payment_request_id, extended):
            entries += _of_session(row, own=str(row["id"]) != extended, by_operator=by_operator)
        entries += _of_requests(await db.fetch(ASKED, payment_request_id))
        entries += _of_failures(await db.fetch(FAILURES, payment_request_id), by_operator=by_operator)
        for row in await db.fetch(EXTENSIONS, payment_request_id):
            entries += _of_extension(row)
        for row in await db.fetch(CLOSURES, payment_request_id):
            entries.append(
                Entry(
                    at=row["created_at"],
                    kind="goodbye",
                    text=f"The {row['user_type']} said goodbye: “{row['message']}”",
                    session_id=plain(row["session_id"]),
                )
            )
    if not entries:
        raise NotFound
    order = {kind: n for n, kind in enumerate(ORDER)}
    entries.sort(key=lambda entry: (entry.at, order.get(entry.kind, len(order))))
    return Timeline(payment=found, entries=entries, why_no_chat=why_no_chat(found, by_operator=by_operator))
