"""The entries of a payment's timeline: one line of text, or several, for each row of a source (docs/fairness.md).

Each line is in both languages; what people wrote stays as they wrote it.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, get_args

import attrs

from core.base.field_types import Id, MitraId, SessionId
from core.base.languages import Language, Text
from core.desk.support import SupportPayment
from core.payments.failures import causes
from core.payments.failures.causes import CauseTag, SubCause
from core.payments.gateway_calls import RESULT_LABELS, ProcessingResult
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
    "ACCEPTED": Text(en="accepted", id="menerima"),
    "REJECTED": Text(en="rejected the request", id="menolak permintaan"),
    "IGNORED": Text(en="did not answer in time, or went offline", id="tidak menjawab tepat waktu, atau menjadi luring"),
    "CANCELLED": Text(en="had the request withdrawn", id="tidak lagi diminta"),
}
ENDED_BY = {
    "customer": Text(en="the customer", id="pelanggan"),
    "mitra": Text(en="the mitra", id="mitra"),
    "timer": Text(en="time", id="waktu"),
    "operator": Text(en="an operator", id="operator"),
}
STAGES_OF_END = {
    "closing": Text(en="closing", id="berpamitan"),
    "completed": Text(en="completed", id="selesai"),
}
EXTENSION_ANSWERS = {
    "approved": Text(en="The mitra approved; the session continued.", id="Mitra menyetujui; sesi berlanjut."),
    "auto_approved": Text(
        en="The mitra did not answer, which counted as approval; the session continued.",
        id="Mitra tidak menjawab, yang dianggap menyetujui; sesi berlanjut.",
    ),
    "rejected": Text(en="The mitra rejected.", id="Mitra menolak."),
    SubCause.NOT_ANSWERED: Text(
        en="The mitra did not answer, which counted as a rejection.",
        id="Mitra tidak menjawab, yang dianggap menolak.",
    ),
    "safeguard_tripped": Text(
        en="The session ended before the mitra answered.", id="Sesi berakhir sebelum mitra menjawab."
    ),
}
NO_TEXT = Text(en="", id="")


@attrs.frozen(kw_only=True)
class TimelineEntry:
    """One event of a payment's timeline."""

    at: dt.datetime
    kind: EntryKind
    text: str
    session_id: SessionId | None = None
    mitra_id: MitraId | None = None
    webhook_log_id: Id | None = None


@attrs.frozen(kw_only=True)
class Line:
    """An entry in both languages."""

    at: dt.datetime
    kind: EntryKind
    text: Text
    session_id: SessionId | None = None
    mitra_id: MitraId | None = None
    webhook_log_id: Id | None = None

    def said_in(self, language: Language) -> TimelineEntry:
        """Return the entry in a language."""
        return TimelineEntry(
            at=self.at,
            kind=self.kind,
            text=self.text.said_in(language),
            session_id=self.session_id,
            mitra_id=self.mitra_id,
            webhook_log_id=self.webhook_log_id,
        )


def _amount(idr: int) -> str:
    return "Rp " + f"{idr:,}".replace(",", ".")


def of_payment(p: SupportPayment) -> list[Line]:
    """Return the entries of the payment request itself."""
    mode = Text(en="call", id="panggilan") if p.mode == "call" else Text(en="chat", id="obrolan")
    amount = _amount(p.asked_amount or p.amount)
    what = Text(
        en=f"{p.duration_minutes} minutes, {mode.en}, {amount}", id=f"{p.duration_minutes} menit, {mode.id}, {amount}"
    )
    kind = (
        Text(en="an extension of", id="perpanjangan")
        if p.is_extension
        else Text(en="a first session with discount of", id="sesi pertama dengan diskon,")
        if p.is_first_session_discount
        else Text(en="a session of", id="sesi")
    )
    asked = Text(en=f"The customer requested {kind.en} {what.en}.", id=f"Pelanggan meminta {kind.id} {what.id}.")
    found = [Line(at=p.created_at, kind="created", text=asked)]
    if p.confirmed_at is not None:
        paid = _amount(p.amount)
        text = (
            Text(en=f"{paid} received.", id=f"{paid} diterima.")
            if p.asked_amount is None
            else Text(en=f"{paid} of {amount} received.", id=f"{paid} dari {amount} diterima.")
        )
        found.append(Line(at=p.confirmed_at, kind="paid", text=text))
    if p.consumed_at is not None:
        text = Text(en="The payment became revenue.", id="Pembayaran menjadi pendapatan.")
        found.append(Line(at=p.consumed_at, kind="earned", text=text))
    if p.status == "expired" or (p.confirmed_at is not None and p.confirmed_at > p.expires_at):
        text = Text(en="The time to pay ended.", id="Waktu untuk membayar habis.")
        found.append(Line(at=p.expires_at, kind="deadline", text=text))
    return found


def of_audit_row(row: Any) -> Line:
    """Return the entry of what an operator did to the payment request or to a session."""
    at, name, reason = row["created_at"], row["operator_name"], row["reason"]
    if row["action"] == "session.ended":
        text = Text(
            en=f"{name} ended the session: {reason or 'the reason was erased'}",
            id=f"{name} mengakhiri sesi: {reason or 'alasannya sudah dihapus'}",
        )
        return Line(at=at, kind="ended_by_operator", text=text, session_id=row["object_id"])
    why, amount = f": {reason}" if reason else ".", _amount(row["amount"] or 0)
    kind, text = _done_about_payment(row["action"], name, amount, why)
    return Line(at=at, kind=kind, text=text)


def _done_about_payment(action: str, name: str, amount: str, why: str) -> tuple[EntryKind, Text]:
    """Return the kind and the text of what an operator did about a payment."""
    match action:
        case "payment.refund_requested":
            return "refund_requested", Text(
                en=f"{name} asked the gateway to give {amount} back{why}",
                id=f"{name} meminta gateway mengembalikan {amount}{why}",
            )
        case "payment.accepted_short":
            return "confirmed_by_operator", Text(
                en=f"{name} accepted {amount} for what it is.", id=f"{name} menerima {amount} sebagaimana adanya."
            )
        case "payment.refunded_by_hand":
            return "refunded", Text(
                en=f"{name} gave {amount} back by hand{why}", id=f"{name} mengembalikan {amount} secara manual{why}"
            )
        case "failed_pairing.refund_requested":
            return "refund_requested", Text(
                en=f"{name} asked the gateway to refund the payment{why}",
                id=f"{name} meminta gateway mengembalikan dana{why}",
            )
    return "confirmed_by_operator", Text(
        en=f"{name} confirmed the payment by hand.", id=f"{name} mengonfirmasi pembayaran secara manual."
    )


def of_webhook_call(row: Any) -> Line:
    """Return the entry of one call of the gateway."""
    polled, again, status = row["source"] == "poll", row["replay_of"], row["status"]
    result, http = _result(row["processing_result"]), row["http_status"] or "-"
    note = f": {row['processing_error']}" if row["processing_error"] else ""
    how = Text(
        en=f"The gateway {'was polled and answered' if polled else 'called'}: {status or 'no status'}",
        id=f"Gateway {'ditanya dan menjawab' if polled else 'memanggil'}: {status or 'tanpa status'}",
    )
    if again:
        how = Text(en=f"{how.en} (replayed by an operator)", id=f"{how.id} (diulang oleh operator)")
    text = Text(en=f"{how.en}. Result: {result.en}, {http}{note}.", id=f"{how.id}. Hasil: {result.id}, {http}{note}.")
    return Line(at=row["received_at"], kind="webhook", text=text, webhook_log_id=plain(row["id"]))


def _result(value: str | None) -> Text:
    """Return what a call led to, in words."""
    if value is None:
        return Text(en="not answered yet", id="belum dijawab")
    return RESULT_LABELS[ProcessingResult(value)]


def of_session(row: Any, *, own: bool, by_operator: bool) -> list[Line]:
    """Return the entries of a session from its search to its end.

    `own` is False for the session that the payment extends. `by_operator`: an operator ended its search.
    """
    mitra, target = row["mitra_name"], row["target_name"]
    if not own:
        text = Text(
            en=f"The session to extend had started, with {mitra}.",
            id=f"Sesi yang akan diperpanjang sudah dimulai, dengan {mitra}.",
        )
        return [*_line(row, row["paired_at"], "session", text), *_end(row, by_operator=by_operator)]
    began = (
        Text(en=f"The search for {target} started.", id=f"Pencarian {target} dimulai.")
        if target
        else Text(
            en="The search started among all available mitras.",
            id="Pencarian dimulai di antara semua mitra yang tersedia.",
        )
    )
    again = Text(
        en="The customer asked all mitras instead, in the same search.",
        id="Pelanggan meminta semua mitra sebagai gantinya, dalam pencarian yang sama.",
    )
    paired = Text(en=f"{mitra} accepted; the chat started.", id=f"{mitra} menerima; obrolan dimulai.")
    return [
        *_line(row, row["created_at"], "search_began", began),
        *_line(row, row["fell_back_at"], "tried_again", again),
        *_line(row, row["paired_at"], "paired", paired),
        *_end(row, by_operator=by_operator),
    ]


def _line(row: Any, at: dt.datetime | None, kind: EntryKind, text: Text) -> list[Line]:
    """Return an entry of a session; none without a time."""
    return [] if at is None else [Line(at=at, kind=kind, text=text, session_id=plain(row["id"]))]


def _end(row: Any, *, by_operator: bool) -> list[Line]:
    """Return the entries about the end of a session or of its search."""
    status = row["status"]
    if status == "failed":
        text = Text(en="The search ended without a mitra.", id="Pencarian berakhir tanpa mitra.")
        return _line(row, row["ended_at"], "search_failed", text)
    if status == "cancelled":
        text = (
            Text(en="An operator ended the search.", id="Operator mengakhiri pencarian.")
            if by_operator
            else Text(en="The customer cancelled the search.", id="Pelanggan membatalkan pencarian.")
        )
        return _line(row, row["ended_at"], "search_cancelled", text)
    if status not in ("expired", "closing", "completed"):
        return []
    ran_out = row["expires_at"] is not None and (row["ended_at"] is None or row["expires_at"] <= row["ended_at"])
    over = Text(en="The paid time ended.", id="Waktu yang dibayar habis.")
    found = _line(row, row["expires_at"], "session_expired", over) if ran_out else []
    if status != "expired":
        by, state, count = ENDED_BY.get(row["ended_by"], NO_TEXT), STAGES_OF_END[status], row["last_seq"]
        text = Text(
            en=f"The session is {state.en}, ended by {by.en}; {count} messages were sent.",
            id=f"Sesi {state.id}, diakhiri oleh {by.id}; {count} pesan dikirim.",
        )
        found += _line(row, row["ended_at"], "session_closing" if status == "closing" else "session_completed", text)
    return found


def of_invitations(rows: list[Any]) -> list[Line]:
    """Return the entries of invitations and of their answers."""
    found: list[Line] = []
    for row in rows:
        name, number = row["display_name"], row["round_number"]
        session_id, mitra_id = plain(row["session_id"]), plain(row["mitra_id"])
        text = Text(en=f"{name} was invited (round {number}).", id=f"{name} diminta (putaran {number}).")
        found.append(
            Line(at=row["notified_at"], kind="mitra_asked", text=text, session_id=session_id, mitra_id=mitra_id)
        )
        if row["response"] is not None:
            said = _answer(row["response"], row["lost_by_ms"])
            text = Text(en=f"{name} {said.en}.", id=f"{name} {said.id}.")
            found.append(
                Line(at=row["responded_at"], kind="mitra_answered", text=text, session_id=session_id, mitra_id=mitra_id)
            )
    return found


def _answer(response: str, lost_by_ms: int | None) -> Text:
    """Return what followed an invitation. Only a mitra who tried to accept was too late."""
    if response != "MISSED":
        return ANSWERS[response]
    if lost_by_ms is None:
        return Text(
            en="had the request closed before they answered: another mitra accepted",
            id="belum menjawab ketika permintaan ditutup: mitra lain menerima",
        )
    return Text(
        en=f"was too late: another mitra had accepted {lost_by_ms} ms earlier",
        id=f"terlambat: mitra lain sudah menerima {lost_by_ms} md lebih awal",
    )


def of_extension(row: Any) -> list[Line]:
    """Return the entries of an extension and of its answer."""
    session_id = plain(row["session_id"])
    minutes = row["requested_duration_minutes"]
    if row["status"] == "safeguard_tripped" and row["requested_at"] == row["responded_at"]:
        text = Text(
            en="The session could no longer be extended, so the mitra was not asked.",
            id="Sesi tidak dapat diperpanjang lagi, jadi mitra tidak ditanya.",
        )
        return [Line(at=row["requested_at"], kind="extension_tripped", text=text, session_id=session_id)]
    text = Text(
        en=f"The mitra was asked to extend by {minutes} minutes.",
        id=f"Mitra ditanya tentang perpanjangan {minutes} menit.",
    )
    found = [Line(at=row["requested_at"], kind="extension_asked", text=text, session_id=session_id)]
    if row["status"] in EXTENSION_ANSWERS:
        silent = row["sub_cause"] == SubCause.NOT_ANSWERED
        text = EXTENSION_ANSWERS[SubCause.NOT_ANSWERED if silent else row["status"]]
        found.append(Line(at=row["responded_at"], kind="extension_answered", text=text, session_id=session_id))
    return found


PARTIES = {"customer": Text(en="The customer", id="Pelanggan"), "mitra": Text(en="The mitra", id="Mitra")}


def of_goodbye(row: Any) -> Line:
    """Return the entry of a goodbye."""
    who, said = PARTIES[row["user_type"]], f": “{row['message']}”"
    text = Text(
        en=f"{who.en} said goodbye{'; the text was removed' if row['blanked_at'] else said}",
        id=f"{who.id} berpamitan{'; teksnya sudah dihapus' if row['blanked_at'] else said}",
    )
    return Line(at=row["created_at"], kind="goodbye", text=text, session_id=plain(row["session_id"]))


DONE = {
    "refunded": Text(en="refunded the payment", id="mengembalikan dana"),
    "credited": Text(en="gave a credit", id="memberi kredit"),
    "no_action": Text(en="decided that no action is needed", id="memutuskan bahwa tidak perlu apa-apa"),
}
AGAIN = (
    Text(
        en="The customer tried again, with the same payment.",
        id="Pelanggan mencoba lagi, dengan pembayaran yang sama.",
    ),
    Text(
        en="The money was accepted for what it is, and the search began.",
        id="Uangnya diterima sebagaimana adanya, dan pencarian dimulai.",
    ),
)
REFUNDED = Text(en="The gateway paid the money back.", id="Gateway sudah mengembalikan uangnya.")


def of_refund(row: Any) -> Line:
    """Return the entry of what became of a refund of earned money through the gateway."""
    amount, code = _amount(row["amount"]), row["failure_code"]
    if row["status"] == "failed":
        text = Text(en=f"The refund of {amount} failed: {code}.", id=f"Pengembalian {amount} gagal: {code}.")
        return Line(at=row["settled_at"], kind="refund_failed", text=text)
    text = Text(en=f"The gateway paid {amount} back.", id=f"Gateway sudah mengembalikan {amount}.")
    return Line(at=row["settled_at"], kind="refunded", text=text)


def of_failures(rows: list[Any]) -> list[Line]:
    """Return the entries of failures and of what followed each one."""
    found: list[Line] = []
    for row in rows:
        tag = CauseTag(row["cause_tag"])
        why = causes.explanation(tag, row["sub_cause"])
        label = causes.label(tag, row["sub_cause"])
        text = Text(
            en=f"The payment led to no chat ({label.en}): {why.en}",
            id=f"Pembayaran tidak menjadi obrolan ({label.id}): {why.id}",
        )
        found.append(Line(at=row["created_at"], kind="failed", text=text))
        if row["superseded_at"] is not None:
            text = AGAIN[tag is CauseTag.PAYMENT_SHORT]
            found.append(Line(at=row["superseded_at"], kind="tried_again", text=text))
        if row["refund_status"] == "failed":
            code = row["refund_failure_code"]
            text = Text(en=f"The refund failed: {code}.", id=f"Pengembalian dana gagal: {code}.")
            found.append(Line(at=row["refund_settled_at"], kind="refund_failed", text=text))
        if row["operator_action"] is not None:
            text = REFUNDED if row["refund_status"] == "succeeded" else _done(row)
            found.append(Line(at=row["actioned_at"], kind="operator_acted", text=text))
    return found


def _done(row: Any) -> Text:
    """Return what an operator did about a failure."""
    done, note = DONE[row["operator_action"]], f": {row['note']}" if row["note"] else "."
    return Text(en=f"{row['operator_name']} {done.en}{note}", id=f"{row['operator_name']} {done.id}{note}")


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
class EndedRound:
    """A round of a search that has ended (the row is `SearchRound` in core/pairing/tables.py)."""

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


def rounds_of(rows: list[Any]) -> list[EndedRound]:
    """Return the rounds of rows of the statement `rounds`."""
    return [EndedRound(**dict(row)) for row in rows]


def alike(rounds: Sequence[EndedRound]) -> Iterator[tuple[EndedRound, EndedRound]]:
    """Yield (first, last) of consecutive rounds of a search with the same summary that asked no mitra.

    A round that asked mitras is yielded alone, as both.
    """

    def key(one: EndedRound) -> tuple[str, str, int]:
        return one.session_id, one.summary().en, one.round_number if one.asked else 0

    for _, group in groupby(rounds, key):
        found = list(group)
        yield found[0], found[-1]


def of_last(last: EndedRound) -> Text:
    """Return the sentence about the last round of a search."""
    summary = last.summary()
    return Text(
        en=f"Its last round, number {last.round_number}, had {summary.en}.",
        id=f"Putaran terakhirnya, nomor {last.round_number}: {summary.id}.",
    )


def of_rounds(rounds: list[EndedRound]) -> list[Line]:
    """Return the timeline's entries of rounds that have ended; rounds without a difference share one."""
    found: list[Line] = []
    for first, last in alike(rounds):
        summary, one, other = last.summary(), first.round_number, last.round_number
        text = (
            Text(en=f"Round {other} had {summary.en}.", id=f"Putaran {other}: {summary.id}.")
            if first is last
            else Text(
                en=f"Each round from {one} to {other} had {summary.en}.",
                id=f"Setiap putaran dari {one} sampai {other}: {summary.id}.",
            )
        )
        found.append(Line(at=last.ended_at, kind="round_ended", text=text, session_id=last.session_id))
    return found


def of_absence(row: Any) -> list[Line]:
    """Return the entries of an absence and of the party's return."""
    session_id, who = plain(row["session_id"]), PARTIES[row["user_type"]]
    seconds = round((row["declared_at"] - row["since"]).total_seconds())
    text = Text(
        en=f"{who.en} was away: no sign of life for {seconds} s.",
        id=f"{who.id} pergi: tanpa kabar selama {seconds} dtk.",
    )
    found = [Line(at=row["declared_at"], kind="party_absent", text=text, session_id=session_id)]
    if row["returned"]:
        seconds = round((row["ended_at"] - row["since"]).total_seconds())
        text = Text(
            en=f"{who.en} returned after {seconds} s.",
            id=f"{who.id} kembali setelah {seconds} dtk.",
        )
        found.append(Line(at=row["ended_at"], kind="party_returned", text=text, session_id=session_id))
    return found


LOST = {
    "database": Text(en="the database could not be written", id="basis data tidak dapat ditulis"),
    "realtime": Text(en="no realtime process was running", id="tidak ada proses realtime yang berjalan"),
    "mitra_absent": Text(en="the mitra was away", id="mitra sedang pergi"),
}


def of_credit(row: Any) -> Line:
    """Return the entry of one credit."""
    since, until = (f"{at:%H:%M:%S}" for at in (row["began_at"], row["ended_at"]))
    seconds, lost = round(row["milliseconds"] / 1000), LOST[row["reason"]]
    text = Text(
        en=f"The session got {seconds} s back: {lost.en} from {since} to {until} UTC.",
        id=f"Sesi mendapat kembali {seconds} dtk: {lost.id} dari {since} sampai {until} UTC.",
    )
    return Line(at=row["created_at"], kind="time_credited", text=text, session_id=plain(row["session_id"]))
