"""The timeline of one payment: everything that happened to it, in order, and why it led to no chat, if so.

Each source is read once, and each of its rows becomes a line of text. The sentence about why there was no chat depends
only on the payment's state, its live failure and the last round of its search, not on the lines. What happened to each
event on each device (docs/fairness.md#delivery-trail) stands apart from them.
"""

import datetime as dt
from collections.abc import Iterable
from typing import Any

import attrs

from core.base import id_ranges
from core.base.actor import Actor
from core.base.field_types import Id, MitraId
from core.base.languages import Language, Text
from core.deliveries.stages import TrailStage
from core.desk import disclosure
from core.desk.support import SupportPayment, payment
from core.desk.timeline.entries import (
    ORDER,
    EndedRound,
    Line,
    TimelineEntry,
    of_absence,
    of_audit_row,
    of_credit,
    of_extension,
    of_failures,
    of_goodbye,
    of_invitations,
    of_last,
    of_payment,
    of_refund,
    of_rounds,
    of_session,
    of_webhook_call,
    rounds_of,
)
from core.payments.failures.causes import SubCause, explanation
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.records import plain

SQL = sql_files.load(__file__)
MOST = 2_000  # rows of a timeline; those of invitations, of which a search may have thousands, are read last
UNPAID = {
    "pending": Text(en="The customer has not paid yet.", id="Pelanggan belum membayar."),
    "abandoned": Text(
        en="The request was abandoned before payment: the customer cancelled it or made a newer one, or the gateway "
        "created no invoice.",
        id="Permintaan ini ditinggalkan sebelum dibayar: pelanggan membatalkannya atau membuat yang baru, atau gateway "
        "tidak membuat tagihan.",
    ),
    "expired": Text(en="The payment did not arrive in time.", id="Pembayaran tidak datang tepat waktu."),
}
UNPAID_EXTENSION = Text(
    en="The request was abandoned before payment: the customer cancelled it, the gateway created no invoice, or the "
    "session ended.",
    id="Permintaan ini ditinggalkan sebelum dibayar: pelanggan membatalkannya, gateway tidak membuat tagihan, atau "
    "sesinya berakhir.",
)


@attrs.frozen(kw_only=True)
class DeviceStage:
    """What happened to an event on a device. `device` is null for an event that was given up for all of them."""

    device: str | None
    stage: TrailStage
    at: dt.datetime


@attrs.frozen(kw_only=True)
class EventTrail:
    """An event for one recipient, and what happened to it. `mitra_id` is null if the customer is the recipient."""

    event_id: Id
    event: str
    mitra_id: MitraId | None
    recipient: str | None
    stages: list[DeviceStage]


@attrs.frozen(kw_only=True)
class Timeline:
    """The timeline of one payment.

    `why_no_chat` is null if there was a chat, or there may still be one. Otherwise it ends with the numbers of mitras
    in the last round of the search, if there was a search and the round is stored. `events` are what the parties were
    sent in the last 90 days; of a search with very many invitations, not all of them.
    """

    payment: SupportPayment
    entries: list[TimelineEntry]
    events: list[EventTrail]
    why_no_chat: str | None
    why_no_chat_in_indonesian: str | None


def why_no_chat(p: SupportPayment, rounds: list[EndedRound]) -> Text | None:
    """Return why there was no chat; None if there was one, or there may still be one."""
    if p.status in UNPAID:
        return UNPAID_EXTENSION if p.is_extension and p.status == "abandoned" else UNPAID[p.status]
    if p.failure is None:
        return None
    why = explanation(p.failure.cause_tag, p.failure.sub_cause)
    if not rounds or not rounds[-1].is_last:  # its row may be missing, or its end
        return why
    last = of_last(rounds[-1])
    return Text(en=f"{why.en} {last.en}", id=f"{why.id} {last.id}")


async def timeline(
    runtime: Runtime, actor: Actor, payment_request_id: str, language: Language = Language.ENGLISH
) -> Timeline:
    """Return the timeline of a payment, with its entries in a language.

    Without `customers.pii`, texts that people wrote and errors are hidden; with it, an audit row records that they were
    read. Raises NotFound for an unknown id, Unavailable if the audit row can't be written.
    """
    reading, may_read = disclosure.Reading(actor=actor), disclosure.readable(actor)

    def shown(rows: list[Any], field: str) -> list[Any]:
        for row in rows:
            reading.add(payment_request_id, **{field: row[field]})
        return [disclosure.row_as(row, field, may_read=may_read) for row in rows]

    found = await payment(runtime, payment_request_id)
    extended = found.session_id if found.is_extension else None
    entries: list[Line] = []
    db = runtime.db
    audits = await db.fetch(SQL["audit_rows"], payment_request_id, extended)
    failures = shown(await db.fetch(SQL["failures"], payment_request_id), "note")
    by_operator = any(row["sub_cause"] == SubCause.BY_OPERATOR for row in failures)
    entries += of_payment(found)
    entries += map(of_audit_row, shown(audits, "reason"))
    since = id_ranges.since_named(payment_request_id)
    entries += map(
        of_webhook_call, shown(await db.fetch(SQL["webhook_calls"], payment_request_id, since), "processing_error")
    )
    for row in await db.fetch(SQL["sessions"], payment_request_id, extended):
        entries += of_session(row, own=str(row["id"]) != extended, by_operator=by_operator)
    entries += of_invitations(await db.fetch(SQL["invitations"], payment_request_id))
    rounds = rounds_of(await db.fetch(SQL["rounds"], payment_request_id))
    entries += of_rounds(rounds)
    entries += of_failures(failures)
    entries += map(of_refund, await db.fetch(SQL["refunds"], payment_request_id))
    for row in await db.fetch(SQL["extensions"], payment_request_id):
        entries += of_extension(row)
    entries += map(of_credit, await db.fetch(SQL["credits"], payment_request_id, extended))
    for row in await db.fetch(SQL["absences"], payment_request_id):
        entries += of_absence(row)
    entries += map(of_goodbye, shown(await db.fetch(SQL["goodbyes"], payment_request_id), "message"))
    stages = await db.fetch(SQL["events"], payment_request_id, extended, found.created_at, since, MOST)
    await reading.note(runtime, "payment_request", listed=False)
    order = {kind: n for n, kind in enumerate(ORDER)}
    entries.sort(key=lambda entry: (entry.at, order.get(entry.kind, len(order))))
    why = why_no_chat(found, rounds)
    return Timeline(
        payment=found,
        entries=[entry.said_in(language) for entry in entries],
        events=trails_of(stages),
        why_no_chat=why and why.en,
        why_no_chat_in_indonesian=why and why.id,
    )


def trails_of(rows: Iterable[Any]) -> list[EventTrail]:
    """Return the events of rows, which are in the order of time."""
    found: dict[str, EventTrail] = {}
    names: dict[str, str] = {}  # by device
    used: dict[tuple[str, str], int] = {}  # (recipient, name) -> devices
    for row in rows:
        trail = found.setdefault(
            plain(row["event_id"]),
            EventTrail(
                event_id=plain(row["event_id"]),
                event=row["event"],
                mitra_id=plain(row["mitra_id"]),
                recipient=row["recipient"],
                stages=[],
            ),
        )
        device = plain(row["auth_session_id"])
        if device is not None and device not in names:
            name = _name(row["device_info"])
            count = used[key] = used.get(key := (plain(row["recipient_id"]), name), 0) + 1
            names[device] = name if count == 1 else f"{name} ({count})"
        trail.stages.append(DeviceStage(device=device and names[device], stage=TrailStage(row["stage"]), at=row["at"]))
    return list(found.values())


def _name(info: dict[str, str] | None) -> str:
    """Return the name of a device from what its app reported at sign-in."""
    info = info or {}
    parts = [info.get("platform"), info.get("app_version")]
    return " ".join(part for part in parts if part) or "device"
