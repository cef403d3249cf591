"""Check what must be true when a run has settled (docs/invariants.md)."""

import asyncio
import base64
import collections
import contextlib
import json
import pathlib
from typing import Any

from tests.faults import people as app
from tests.faults.chaos.lives import OVER, Ack, ChaosWorld, Mitra
from tools.driving.sesi_client.waits import PAUSES_S

SETTLE_S = 90.0  # for a payment that a sweep finds after 60 s, the session's deadlines, and a busy machine
BY_CHOICE_S = 10.0  # a mitra who goes offline by choice returns after half a second and two calls
RECONNECT_S = PAUSES_S[-1] + 5.0  # the longest backoff of a phone, the connection, and the requests for missed events
# Real seconds in which the sweep, which runs every 60 s, marks calls that have been without a result for 60 s.
STAMP_S = 135.0
ALLOWED_S = 10.0  # between the beginnings of a transaction and of another one for whose lock it waits
TWICE = """SELECT b.id::text FROM refunds a JOIN refunds b ON b.reason = a.reason AND b.id > a.id
  AND b.payment_request_id = a.payment_request_id
  WHERE a.failure_id IS NULL AND (a.settled_at IS NULL OR b.requested_at < a.settled_at - make_interval(secs => $1))"""
# `_hurry` moves `paired_at`, but not the payment's time.
PAIRED = """SELECT s.id::text FROM chat_sessions s JOIN payment_requests p ON p.id = s.payment_request_id
  WHERE s.customer_id = $1::uuid AND s.mitra_id = $2::uuid AND s.paired_at IS NOT NULL
    AND p.consumed_at > to_timestamp($3) AND p.consumed_at < to_timestamp($4)"""
ASKED = """SELECT id::text FROM payment_requests
  WHERE customer_id = $1::uuid AND created_at > to_timestamp($2) AND created_at < to_timestamp($3)"""
STANDING = """SELECT id::text FROM blocks UNION ALL SELECT id::text FROM customers WHERE blocked_at IS NOT NULL"""


async def settled(crowd: ChaosWorld) -> None:
    """Wait until no session and no refund is open, and no payment is pending.

    One that still is counts as a violation.
    """
    rest: list[Any] = []
    deadline = asyncio.get_running_loop().time() + SETTLE_S
    while asyncio.get_running_loop().time() < deadline:
        rest = await crowd.stack.sql(
            """SELECT 'session ' || id || ' is ' || status FROM chat_sessions WHERE NOT status = ANY($1::text[])
               UNION ALL SELECT 'payment ' || id || ' is ' || status FROM payment_requests WHERE status = 'confirmed'
               UNION ALL SELECT 'refund ' || id || ' is ' || status FROM refunds WHERE is_open_refund(status)""",
            list(OVER),
        )
        if not rest:
            return
        await asyncio.sleep(0.25)
    for row in rest:
        crowd.notes.violation(f"still open at the end: {row[0]}")


async def all_online(crowd: ChaosWorld, mitras: list[Mitra]) -> None:
    """Check that every mitra with a working phone is online, and that only the mitra took themselves offline.

    First wait for those who are offline by choice at the moment.
    """
    crowd.notes.all_stay = True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(BY_CHOICE_S):
            while any(mitra.is_away for mitra in mitras):
                await asyncio.sleep(0.05)
    rows = await crowd.stack.sql(
        """SELECT o.mitra_id::text, o.is_online, (SELECT count(*)::int FROM mitra_online_logs l WHERE l.mitra_id = o.mitra_id
             AND l.status = 'offline') AS times FROM mitra_online_status o"""
    )
    seen = {row["mitra_id"]: row for row in rows}
    for mitra in mitras:
        if mitra.id not in seen:
            continue  # this mitra's task failed at the start, which is a violation already
        crowd.notes.counts["mitras online"] += seen[mitra.id]["is_online"]
        if not seen[mitra.id]["is_online"]:
            crowd.notes.violation(
                f"{mitra.name} is offline at the end, although the phone is connected: offline {seen[mitra.id]['times']} times, "
                f"{mitra.went_offline} of them by choice"
            )
        elif seen[mitra.id]["times"] > mitra.went_offline:
            crowd.notes.violation(f"{mitra.name} was taken offline, although the phone is connected")


async def judge(crowd: ChaosWorld) -> None:
    """Record every violation."""
    audit = await asyncio.to_thread(crowd.stack.command, "audit", check=False)
    crowd.notes.counts["audited"] = 1
    if audit.returncode != 0:
        crowd.notes.violation(f"sesi audit: {audit.stdout}{audit.stderr}")
    await _messages(crowd)
    await _transcripts(crowd)
    await _calls(crowd)
    await _refunds(crowd)
    await _reports(crowd)
    await _blocks(crowd)


async def _messages(crowd: ChaosWorld) -> None:
    rows = await crowd.stack.sql(
        "SELECT session_id::text, sender_id::text, client_message_id::text, id::text, seq, content FROM chat_messages"
    )
    crowd.notes.counts["messages"] = len(rows)
    names = ("session_id", "sender_id", "client_message_id", "id", "seq", "content")
    stored = {row["client_message_id"]: Ack(**{name: row[name] for name in names}) for row in rows}
    contents = [row["content"] for row in rows if "/" in row["content"]]
    if len(contents) != len(set(contents)):
        crowd.notes.violation("a message is stored twice")
    for ack in crowd.notes.acks:
        if stored.get(ack.client_message_id) != ack:
            crowd.notes.violation(f"acknowledged {ack}, stored {stored.get(ack.client_message_id)}")


async def _transcripts(crowd: ChaosWorld) -> None:
    mine = "SELECT id::text FROM chat_sessions WHERE paired_at IS NOT NULL AND $1::uuid IN (customer_id, mitra_id)"
    for phone in crowd.notes.phones:
        name = phone.client.user["display_name"]
        for row in await crowd.stack.sql(mine, phone.client.user["id"]):
            crowd.notes.counts["transcripts"] += 1
            stored = await app.stored(crowd, row["id"])
            shown = await phone.transcript(row["id"], len(stored), timeout=RECONNECT_S)
            if shown != stored:
                crowd.notes.violation(
                    f"a phone of {name} shows {len(shown)} of {len(stored)} messages of {row['id']}: {await phone.describe()}"
                )
        for what in await phone.repeated():
            crowd.notes.violation(f"{name} got it twice: {what}")


async def _refunds(crowd: ChaosWorld) -> None:
    """Check that each acknowledged refund of earned money is stored, and that no repeat has made another one."""
    rows = await crowd.stack.sql("SELECT id::text, reason, amount, status FROM refunds WHERE failure_id IS NULL")
    crowd.notes.counts["refunds of earned money"] = len(rows)
    stored = {row["id"]: (row["reason"], row["amount"], row["status"]) for row in rows}
    made = collections.Counter(row["reason"] for row in rows)
    for one in crowd.notes.given:
        if stored.get(one.id) != (one.reason, one.amount, "succeeded"):
            crowd.notes.violation(f"acknowledged {one}, stored {stored.get(one.id)}")
        if one.is_once and made[one.reason] != 1:
            crowd.notes.violation(f"{made[one.reason]} refunds instead of one: {one}")
    for reason in made.keys() - crowd.notes.reasons:
        crowd.notes.violation(f"a refund that was not asked for: {reason}")
    # A repeat without a key may make a second refund only after the first one.
    for row in await crowd.stack.sql(TWICE, ALLOWED_S):
        crowd.notes.violation(f"a second refund was made while the first was open: {row[0]}")


async def _reports(crowd: ChaosWorld) -> None:
    """Check that each acknowledged report is stored once, with what the operator did."""
    rows = await crowd.stack.sql("SELECT id::text, session_id::text, reporter, reason, resolution FROM session_reports")
    stored = {(row["session_id"], row["reporter"]): row["reason"] for row in rows}
    if stored != crowd.notes.reports:
        crowd.notes.violation(
            f"acknowledged and stored reports differ: {set(stored.items()) ^ set(crowd.notes.reports.items())}"
        )
    resolutions = {row["id"]: row["resolution"] for row in rows if row["resolution"] is not None}
    if resolutions != crowd.notes.resolved:
        crowd.notes.violation(
            f"resolved reports differ: {set(resolutions.items()) ^ set(crowd.notes.resolved.items())}"
        )


async def _blocks(crowd: ChaosWorld) -> None:
    """Check that nothing was paired or asked for while it was blocked, and that no block is left."""
    for one in crowd.notes.pair_blocks:
        for row in await crowd.stack.sql(PAIRED, *one.whom, one.since, one.until):
            crowd.notes.violation(f"paired during {one}: {row[0]}")
    for one in crowd.notes.account_blocks:
        for row in await crowd.stack.sql(ASKED, *one.whom, one.since, one.until):
            crowd.notes.violation(f"asked for a payment during {one}: {row[0]}")
    for row in await crowd.stack.sql(STANDING):
        crowd.notes.violation(f"a block that was lifted: {row[0]}")


def _lines(folder: pathlib.Path) -> list[str]:
    return [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


async def _calls(crowd: ChaosWorld) -> None:
    """Check that every answered webhook call is stored once, in the log or the fallback file, or counted.

    Also check that every stored call was sent.
    """
    kept: dict[str, str] = {}
    (floods,) = await crowd.stack.sql(
        "SELECT coalesce(sum(calls), 0) AS calls FROM webhook_logs WHERE processing_result = 'flood'"
    )
    crowd.notes.counts["calls counted"] = floods["calls"]
    for row in await crowd.stack.sql(
        "SELECT id::text, convert_from(raw_body, 'UTF8') AS body FROM webhook_logs WHERE processing_result IS DISTINCT FROM 'flood'"
    ):
        kept[row["id"]] = json.loads(row["body"]).get("mark", "")
    for line in _lines(pathlib.Path(crowd.stack.env["WEBHOOK_FALLBACK_DIR"])):
        call = json.loads(line)
        kept[call["id"]] = json.loads(base64.b64decode(call["raw_body"])).get("mark", "")
        crowd.notes.counts["calls in the file"] += 1
    marks = list(kept.values())
    crowd.notes.counts["calls"] = len(crowd.notes.calls_sent)
    if len(marks) != len(set(marks)):
        crowd.notes.violation("a webhook call is stored under two ids")
    for mark in sorted(crowd.notes.calls_answered - set(marks))[floods["calls"] :]:
        crowd.notes.violation(f"a webhook call was answered but neither stored nor counted: {mark}")
    for mark in set(marks) - crowd.notes.calls_sent:
        crowd.notes.violation(f"a webhook call was stored but never sent: {mark}")
    late = await crowd.stack.sql(
        f"""SELECT id::text FROM webhook_logs WHERE processing_result IS NULL
              AND received_at < {app.NOW} - make_interval(secs => $2)""",
        crowd.stack.scale,
        STAMP_S * crowd.stack.scale,
    )
    for row in late:
        crowd.notes.violation(f"a webhook call has no result: {row['id']}")
