"""The entries of a payment's timeline: one line of text, or several, for each row of a source (docs/fairness.md)."""

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, get_args

import attrs

from core.base.field_types import Id, MitraId, SessionId
from core.base.languages import Text
from core.desk.support import SupportPayment
from core.payments.failures import causes
from core.payments.failures.causes import CauseTag
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
    "refunded",
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
    what = f"{p.duration_minutes} minutes, {p.mode}, {_amount(p.asked_amount or p.amount)}"
    kind = (
        "an extension of"
        if p.is_extension
        else "a first session with discount of"
        if p.is_first_session_discount
        else "a session of"
    )
    found = [TimelineEntry(at=p.created_at, kind="created", text=f"The customer requested {kind} {what}.")]
    if p.confirmed_at is not None:
        of = "" if p.asked_amount is None else f" of {_amount(p.asked_amount)}"
        found.append(TimelineEntry(at=p.confirmed_at, kind="paid", text=f"{_amount(p.amount)}{of} received."))
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
    why = f": {row['reason']}" if row["reason"] else "."
    if row["action"] == "payment.refund_requested":
        text = f"{row['operator_name']} asked the gateway to give {_amount(row['amount'])} back{why}"
        return TimelineEntry(at=row["created_at"], kind="refund_requested", text=text)
    if row["action"] == "payment.accepted_short":
        text = f"{row['operator_name']} accepted {_amount(row['amount'])} for what it is."
        return TimelineEntry(at=row["created_at"], kind="confirmed_by_operator", text=text)
    if row["action"] == "payment.refunded_by_hand":
        text = f"{row['operator_name']} gave {_amount(row['amount'])} back by hand{why}"
        return TimelineEntry(at=row["created_at"], kind="refunded", text=text)
    if row["action"] == "failed_pairing.refund_requested":
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


ENDED_BY_OPERATOR = Text(
    en="The customer paid, and an operator ended the search before a mitra accepted.",
    id="Pelanggan membayar, lalu operator mengakhiri pencarian sebelum ada mitra yang menerima.",
)
DONE = {
    "refunded": "refunded the payment",
    "credited": "gave a credit",
    "no_action": "decided that no action is needed",
}
AGAIN = (
    "The customer tried again, with the same payment.",
    "The money was accepted for what it is, and the search began.",
)
REFUNDED = "The gateway paid the money back."


def of_refund(row: Any) -> TimelineEntry:
    """Return the entry of what became of a refund of earned money through the gateway."""
    if row["status"] == "failed":
        text = f"The refund of {_amount(row['amount'])} failed: {row['failure_code']}."
        return TimelineEntry(at=row["settled_at"], kind="refund_failed", text=text)
    return TimelineEntry(at=row["settled_at"], kind="refunded", text=f"The gateway paid {_amount(row['amount'])} back.")


def explanation(tag: CauseTag, sub_cause: str | None, *, by_operator: bool) -> Text:
    """Return the sentence about a failure. `by_operator`: an operator ended the search."""
    return (
        ENDED_BY_OPERATOR if by_operator and tag is CauseTag.CUSTOMER_CANCELLED else causes.explanation(tag, sub_cause)
    )


def of_failures(rows: list[Any], *, by_operator: bool) -> list[TimelineEntry]:
    """Return the entries of failures and of what followed each one."""
    found: list[TimelineEntry] = []
    for row in rows:
        why = explanation(CauseTag(row["cause_tag"]), row["sub_cause"], by_operator=by_operator)
        text = f"The payment led to no chat ({row['cause_tag']}): {why.en}"
        found.append(TimelineEntry(at=row["created_at"], kind="failed", text=text))
        if row["superseded_at"] is not None:
            text = AGAIN[row["cause_tag"] == CauseTag.PAYMENT_SHORT]
            found.append(TimelineEntry(at=row["superseded_at"], kind="tried_again", text=text))
        if row["refund_status"] == "failed":
            text = f"The refund failed: {row['refund_failure_code']}."
            found.append(TimelineEntry(at=row["refund_settled_at"], kind="refund_failed", text=text))
        if row["operator_action"] is not None:
            note = f": {row['note']}" if row["note"] else "."
            by_gateway = row["refund_status"] == "succeeded"
            text = REFUNDED if by_gateway else f"{row['operator_name']} {DONE[row['operator_action']]}{note}"
            found.append(TimelineEntry(at=row["actioned_at"], kind="operator_acted", text=text))
    return found


# Column -> what is said of a mitra in it. The first three are those of the online mitras that the round could not ask.
OUTCOMES = {
    "silent": Text(en="without a heartbeat", id="tanpa detak"),
    "full": Text(en="full", id="penuh"),
    "declined": Text(en="had declined", id="sudah menolak sebelumnya"),
    "accepted": Text(en="accepted", id="menerima"),
    "rejected": Text(en="rejected", id="menolak"),
    "unanswered": Text(en="did not answer", id="tidak menjawab"),
    "closed": Text(en="closed before they answered", id="ditutup sebelum menjawab"),
    "not_asked": Text(en="not asked", id="tidak diminta"),
    "joined": Text(en="of them available later", id="di antaranya baru tersedia kemudian"),
}


@attrs.frozen(kw_only=True)
class SearchRound:
    """A round of a search that has ended (`SearchRound` in core/pairing/tables.py)."""

    session_id: SessionId
    round_number: int
    ended_at: dt.datetime
    online: int
    fresh: int
    with_room: int
    askable: int
    asked: int
    accepted: int
    rejected: int
    unanswered: int
    closed: int
    is_last: bool  # the last round of the payment's last search

    def parts(self) -> dict[str, int]:
        """Return the number of mitras of each outcome, in the order of OUTCOMES.

        Mitras who became available during the round were not online, or could not be asked, when it began. All but
        `joined` together are the online mitras and those.
        """
        return {
            "silent": self.online - self.fresh,
            "full": self.fresh - self.with_room,
            "declined": self.with_room - self.askable,
            "accepted": self.accepted,
            "rejected": self.rejected,
            "unanswered": self.unanswered,
            "closed": self.closed,
            "not_asked": max(0, self.askable - self.asked),
            "joined": max(0, self.asked - self.askable),
        }

    def summary(self) -> Text:
        """Return a phrase such as "12 online: 9 full, 2 had declined, 1 did not answer"."""
        said, separator = Text(en=f"{self.online} online", id=f"{self.online} daring"), ": "
        for name, count in self.parts().items():
            if count:
                outcome = OUTCOMES[name]
                said = Text(
                    en=f"{said.en}{separator}{count} {outcome.en}", id=f"{said.id}{separator}{count} {outcome.id}"
                )
                separator = ", "
        return said


def rounds_of(rows: list[Any]) -> list[SearchRound]:
    """Return the rounds of rows of the statement `rounds`."""
    return [SearchRound(**dict(row)) for row in rows]


def alike(rounds: Sequence[SearchRound]) -> Iterator[tuple[SearchRound, SearchRound]]:
    """Yield (first, last) of consecutive rounds of a search with the same summary that asked no mitra.

    A round that asked mitras is yielded alone, as both.
    """

    def key(one: SearchRound) -> tuple[str, str, int]:
        return one.session_id, one.summary().en, one.round_number if one.asked else 0

    for _, group in groupby(rounds, key):
        found = list(group)
        yield found[0], found[-1]


def of_last(last: SearchRound) -> Text:
    """Return the sentence about the last round of a search."""
    summary = last.summary()
    return Text(
        en=f"Its last round, number {last.round_number}, had {summary.en}.",
        id=f"Putaran terakhirnya, nomor {last.round_number}: {summary.id}.",
    )


def of_rounds(rounds: list[SearchRound]) -> list[TimelineEntry]:
    """Return the timeline's entries of rounds that have ended; rounds without a difference share one."""
    found: list[TimelineEntry] = []
    for first, last in alike(rounds):
        numbers = f"Each round from {first.round_number} to" if first is not last else "Round"
        text = f"{numbers} {last.round_number} had {last.summary().en}."
        found.append(TimelineEntry(at=last.ended_at, kind="round_ended", text=text, session_id=last.session_id))
    return found


def of_absence(row: Any) -> list[TimelineEntry]:
    """Return the entries of an absence and of the party's return."""
    session_id, who = plain(row["session_id"]), row["user_type"]
    seconds = round((row["declared_at"] - row["since"]).total_seconds())
    text = f"The {who} was away: no sign of life for {seconds} s."
    found = [TimelineEntry(at=row["declared_at"], kind="party_absent", text=text, session_id=session_id)]
    if row["returned"]:
        seconds = round((row["ended_at"] - row["since"]).total_seconds())
        text = f"The {who} returned after {seconds} s."
        found.append(TimelineEntry(at=row["ended_at"], kind="party_returned", text=text, session_id=session_id))
    return found


LOST = {
    "database": "the database could not be written",
    "realtime": "no realtime process was running",
    "mitra_absent": "the mitra was away",
}


def of_credit(row: Any) -> TimelineEntry:
    """Return the entry of one credit."""
    since, until = (f"{at:%H:%M:%S}" for at in (row["began_at"], row["ended_at"]))
    seconds = round(row["milliseconds"] / 1000)
    text = f"The session got {seconds} s back: {LOST[row['reason']]} from {since} to {until} UTC."
    return TimelineEntry(at=row["created_at"], kind="time_credited", text=text, session_id=plain(row["session_id"]))
