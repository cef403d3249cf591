"""The entries of a payment's timeline: one line of text, or several, for each row of a source."""

import datetime as dt
from typing import Any, Literal, get_args

import attrs

from core.base.field_types import Id, MitraId, SessionId
from core.desk.support import SupportPayment
from core.storage.records import plain

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
    "round_ended",
    "mitra_asked",
    "paired",
    "party_absent",
    "party_returned",
    "extension_asked",
    "ended_by_operator",
    "extension_answered",
    "extension_tripped",
    "time_credited",
    "earned",
    "search_cancelled",
    "search_failed",
    "failed",
    "session_expired",
    "goodbye",
    "session_closing",
    "session_completed",
    "refund_requested",
    "refund_failed",
    "operator_acted",
]
ORDER: tuple[EntryKind, ...] = get_args(EntryKind)
ANSWERS = {
    "ACCEPTED": "accepted",
    "REJECTED": "rejected the request",
    "MISSED": "was too late: another mitra had accepted",
    "IGNORED": "did not answer in time, or went offline",
    "CANCELLED": "had the request withdrawn: the customer cancelled or asked all mitras",
}
ENDED_BY = {"customer": "the customer", "mitra": "the mitra", "timer": "time", "operator": "an operator"}
EXTENSION_ANSWERS = {
    "approved": "The mitra approved; the session continued.",
    "auto_approved": "The mitra did not answer, which counted as approval; the session continued.",
    "rejected": "The mitra rejected, or did not answer, which counted as a rejection.",
    "safeguard_tripped": "The session ended before the mitra answered.",
}


@attrs.frozen(kw_only=True)
class TimelineEntry:
    """One event of a payment's timeline."""

    at: dt.datetime
    kind: EntryKind
    text: str
    session_id: SessionId | None = None
    mitra_id: MitraId | None = None
    webhook_log_id: Id | None = None


def _amount(idr: int) -> str:
    return "Rp " + f"{idr:,}".replace(",", ".")


def of_payment(p: SupportPayment) -> list[TimelineEntry]:
    """Return the entries of the payment request itself."""
    what = f"{p.duration_minutes} minutes, {p.mode}, {_amount(p.amount)}"
    kind = (
        "an extension of"
        if p.is_extension
        else "a first session with discount of"
        if p.is_first_session_discount
        else "a session of"
    )
    found = [TimelineEntry(at=p.created_at, kind="created", text=f"The customer requested {kind} {what}.")]
    if p.confirmed_at is not None:
        found.append(TimelineEntry(at=p.confirmed_at, kind="paid", text=f"{_amount(p.amount)} received."))
    if p.consumed_at is not None:
        found.append(TimelineEntry(at=p.consumed_at, kind="earned", text="The payment became revenue."))
    if p.status == "expired" or (p.confirmed_at is not None and p.confirmed_at > p.expires_at):
        found.append(TimelineEntry(at=p.expires_at, kind="deadline", text="The time to pay ended."))
    return found


def of_audit_row(row: Any) -> TimelineEntry:
    """Return the entry of what an operator did to the payment request or to a session."""
    if row["action"] == "session.ended":
        text = f"{row['operator_name']} ended the session: {row['reason'] or 'the reason was erased'}"
        return TimelineEntry(at=row["created_at"], kind="ended_by_operator", text=text, session_id=row["object_id"])
    if row["action"] == "failed_pairing.refund_requested":
        why = f": {row['reason']}" if row["reason"] else "."
        text = f"{row['operator_name']} asked the gateway to refund the payment{why}"
        return TimelineEntry(at=row["created_at"], kind="refund_requested", text=text)
    text = f"{row['operator_name']} confirmed the payment by hand."
    return TimelineEntry(at=row["created_at"], kind="confirmed_by_operator", text=text)


def of_webhook_call(row: Any) -> TimelineEntry:
    """Return the entry of one call of the gateway."""
    again = " (replayed by an operator)" if row["replay_of"] else ""
    result = row["processing_result"] or "not answered yet"
    note = f": {row['processing_error']}" if row["processing_error"] else ""
    how = "was polled and answered" if row["source"] == "poll" else "called"
    said = f"The gateway {how}: {row['status'] or 'no status'}{again}."
    text = f"{said} Result: {result}, {row['http_status'] or '-'}{note}."
    return TimelineEntry(at=row["received_at"], kind="webhook", text=text, webhook_log_id=plain(row["id"]))


def of_session(row: Any, *, own: bool, by_operator: bool) -> list[TimelineEntry]:
    """Return the entries of a session from its search to its end.

    `own` is False for the session that the payment extends. `by_operator`: an operator ended its search.
    """
    if not own:
        text = f"The session to extend had started, with {row['mitra_name']}."
        return [*_line(row, row["paired_at"], "session", text), *_end(row, by_operator=by_operator)]
    target = row["target_name"]
    began = f"The search for {target} started." if target else "The search started among all available mitras."
    again = "The customer asked all mitras instead, in the same search."
    return [
        *_line(row, row["created_at"], "search_began", began),
        *_line(row, row["fell_back_at"], "tried_again", again),
        *_line(row, row["paired_at"], "paired", f"{row['mitra_name']} accepted; the chat started."),
        *_end(row, by_operator=by_operator),
    ]


def _line(row: Any, at: dt.datetime | None, kind: EntryKind, text: str) -> list[TimelineEntry]:
    """Return an entry of a session; none without a time."""
    return [] if at is None else [TimelineEntry(at=at, kind=kind, text=text, session_id=plain(row["id"]))]


def _end(row: Any, *, by_operator: bool) -> list[TimelineEntry]:
    """Return the entries about the end of a session or of its search."""
    status = row["status"]
    if status == "failed":
        return _line(row, row["ended_at"], "search_failed", "The search ended without a mitra.")
    if status == "cancelled":
        who = "An operator ended" if by_operator else "The customer cancelled"
        return _line(row, row["ended_at"], "search_cancelled", f"{who} the search.")
    if status not in ("expired", "closing", "completed"):
        return []
    ran_out = row["expires_at"] is not None and (row["ended_at"] is None or row["expires_at"] <= row["ended_at"])
    found = _line(row, row["expires_at"], "session_expired", "The paid time ended.") if ran_out else []
    if status != "expired":
        ended_by = ENDED_BY.get(row["ended_by"], "")
        text = f"The session is {status}, ended by {ended_by}; {row['last_seq']} messages were sent."
        found += _line(row, row["ended_at"], "session_closing" if status == "closing" else "session_completed", text)
    return found


def of_invitations(rows: list[Any]) -> list[TimelineEntry]:
    """Return the entries of invitations and of their answers."""
    found: list[TimelineEntry] = []
    for row in rows:
        session_id, mitra_id = plain(row["session_id"]), plain(row["mitra_id"])
        found.append(
            TimelineEntry(
                at=row["notified_at"],
                kind="mitra_asked",
                text=f"{row['display_name']} was invited (round {row['round_number']}).",
                session_id=session_id,
                mitra_id=mitra_id,
            )
        )
        if row["response"] is not None:
            late = "" if row["lost_by_ms"] is None else f" {row['lost_by_ms']} ms earlier"
            found.append(
                TimelineEntry(
                    at=row["responded_at"],
                    kind="mitra_answered",
                    text=f"{row['display_name']} {ANSWERS[row['response']]}{late}.",
                    session_id=session_id,
                    mitra_id=mitra_id,
                )
            )
    return found


def of_extension(row: Any) -> list[TimelineEntry]:
    """Return the entries of an extension and of its answer."""
    session_id = plain(row["session_id"])
    minutes = row["requested_duration_minutes"]
    if row["status"] == "safeguard_tripped" and row["requested_at"] == row["responded_at"]:
        text = "The session could no longer be extended, so the mitra was not asked."
        return [TimelineEntry(at=row["requested_at"], kind="extension_tripped", text=text, session_id=session_id)]
    text = f"The mitra was asked to extend by {minutes} minutes."
    found = [TimelineEntry(at=row["requested_at"], kind="extension_asked", text=text, session_id=session_id)]
    if row["status"] in EXTENSION_ANSWERS:
        text = EXTENSION_ANSWERS[row["status"]]
        found.append(TimelineEntry(at=row["responded_at"], kind="extension_answered", text=text, session_id=session_id))
    return found


def of_goodbye(row: Any) -> TimelineEntry:
    """Return the entry of a goodbye."""
    said = "; the text was removed" if row["blanked_at"] else f": “{row['message']}”"
    text = f"The {row['user_type']} said goodbye{said}"
    return TimelineEntry(at=row["created_at"], kind="goodbye", text=text, session_id=plain(row["session_id"]))
