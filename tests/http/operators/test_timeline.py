"""The timeline of a payment: all its events in order, and why there was no chat, for every outcome of a payment."""

import collections
import datetime as dt
from typing import Any

import pytest

from core.payments.failures import causes
from core.payments.failures.causes import CauseTag
from tests.http.operators.steps import found, unique
from tests.http.pairing.steps import search_is_over
from tests.sockets.plain_socket import end_early
from tests.stack import World, new_id, open_failure, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

PAYMENTS = "/internal/payment-requests"
SECRET = "a word of the chat that nobody else may read"
GOODBYE = "sampai jumpa lagi"
PHONE, EMAIL = "+6281255512345", "melati-of-the-timeline@example.test"
ENTRY = {"at", "kind", "text", "session_id", "mitra_id", "webhook_log_id"}


def id_of(payment: dict[str, Any]) -> str:
    return payment["payment_request_id"]


async def story(world: World, payment: dict[str, Any]) -> dict[str, Any]:
    """Return the timeline, checked against every row that the database has about the payment."""
    operator = await world.operator()
    told = await operator.get(f"{PAYMENTS}/{id_of(payment)}/timeline")
    assert set(told) == {"payment", "entries", "events", "why_no_chat", "why_no_chat_in_indonesian"}
    assert (told["why_no_chat"] is None) == (told["why_no_chat_in_indonesian"] is None)
    assert told["payment"] == await operator.get(f"{PAYMENTS}/{id_of(payment)}")
    entries = told["entries"]
    path = f"{PAYMENTS}/{id_of(payment)}/timeline"
    again = (await operator.call("GET", path, headers={"Accept-Language": "id"}))["entries"]
    assert [entry["kind"] for entry in again] == [entry["kind"] for entry in entries]
    same = {entry["text"] for entry in entries} & {entry["text"] for entry in again}
    assert same == set(), "an entry has no Indonesian text"
    assert all(set(entry) == ENTRY for entry in entries)
    at = [dt.datetime.fromisoformat(entry["at"]) for entry in entries]
    assert at == sorted(at)
    began = [entry["kind"] for entry in entries if entry["kind"] != "session"]  # an extension's session began earlier
    assert began[0] == "created"
    await nothing_is_missing(world, id_of(payment), entries)
    assert SECRET not in str(told)
    assert PHONE not in str(told)
    assert EMAIL not in str(told)
    return told


async def nothing_is_missing(world: World, payment_id: str, entries: list[dict[str, Any]]) -> None:
    """Check that each row has exactly one entry, and that every entry has a row."""

    async def rows(statement: str) -> list[Any]:
        return [tuple(row) for row in await world.stack.sql(statement, payment_id)]

    def of(kind: str, *fields: str) -> Any:
        return collections.Counter(tuple(e[field] for field in fields) for e in entries if e["kind"] == kind)

    calls = await rows("SELECT id::text FROM webhook_logs WHERE lower(external_id) = $1")
    assert of("webhook", "webhook_log_id") == collections.Counter(calls)
    asked = await rows(
        """SELECT n.session_id::text, n.mitra_id::text, n.response FROM chat_request_notifications n
           JOIN chat_sessions s ON s.id = n.session_id WHERE s.payment_request_id = $1::text::uuid"""
    )
    assert of("mitra_asked", "session_id", "mitra_id") == collections.Counter(row[:2] for row in asked)
    answered = collections.Counter(row[:2] for row in asked if row[2] is not None)
    assert of("mitra_answered", "session_id", "mitra_id") == answered
    searches = await rows("SELECT id::text FROM chat_sessions WHERE payment_request_id = $1::text::uuid")
    assert of("search_began", "session_id") == collections.Counter(searches)
    failures = await rows(
        "SELECT superseded_at, operator_action FROM pairing_failures WHERE payment_request_id = $1::text::uuid"
    )
    assert sum(of("failed", "kind").values()) == len(failures)
    assert sum(of("operator_acted", "kind").values()) == sum(row[1] is not None for row in failures)
    audits = await rows("SELECT action FROM operator_audit_log WHERE object_id = $1 AND action = 'payment.confirmed'")
    assert sum(of("confirmed_by_operator", "kind").values()) == len(audits)
    ended = await rows(
        """SELECT object_id FROM operator_audit_log WHERE action = 'session.ended' AND object_id IN
             (SELECT id::text FROM chat_sessions WHERE payment_request_id = $1::text::uuid)"""
    )
    assert of("ended_by_operator", "session_id") == collections.Counter(ended)


def kinds(told: dict[str, Any]) -> list[str]:
    """Return the kinds of the entries in order, without the gateway's calls and the ends of rounds."""
    return [entry["kind"] for entry in told["entries"] if entry["kind"] not in ("webhook", "round_ended")]


def texts(told: dict[str, Any], kind: str) -> list[str]:
    return [entry["text"] for entry in told["entries"] if entry["kind"] == kind]


def check_why(told: dict[str, Any], cause: str, sub_cause: str | None = None) -> None:
    assert told["payment"]["failure"] == open_failure(cause, sub_cause)
    explanation, rounds = causes.explanation(CauseTag(cause), sub_cause), texts(told, "round_ended")
    assert told["why_no_chat"].startswith(explanation.en)
    assert told["why_no_chat_in_indonesian"].startswith(explanation.id)
    # The numbers are those of the last round; without a search there are none.
    assert told["why_no_chat"].endswith(rounds[-1].partition(" had ")[2] if rounds else explanation.en)
    assert causes.label(CauseTag(cause), sub_cause).en in texts(told, "failed")[-1]


async def failed(world: World, payment: dict[str, Any]) -> dict[str, Any]:
    operator = await world.operator()
    await world.until(
        lambda: operator.get(f"{PAYMENTS}/{id_of(payment)}"), lambda seen: seen["status"] == "failed_pairing"
    )
    return await story(world, payment)


async def wait_for_invitation(world: World, mitra: Device, payment: dict[str, Any]) -> str:
    """Wait until the mitra is invited; return the session's id."""
    items = await world.until(
        lambda: mitra.get("/api/mitra/chat-requests"),
        lambda seen: any(one["session_id"] == payment["session_id"] for one in seen["items"]),
    )
    assert items
    return payment["session_id"]


async def a_returning_customer(world: World) -> tuple[Device, Device]:
    """Create a customer who has chatted with a mitra; both have unique names."""
    operator, customer, mitra = (
        await world.operator(),
        await world.customer(unique("Dewi")),
        await world.mitra(unique("Ayu")),
    )
    body = {"customer_id": customer.user["id"], "mitra_id": mitra.user["id"]}
    await operator.post("/internal/_test/seed-history-session", body)
    return customer, mitra


async def returning(world: World, customer: Device, mitra: Device) -> dict[str, Any]:
    """Create a paid targeted request whose search has begun."""
    body = {"mitra_id": mitra.user["id"], "mode": "chat", "duration_minutes": 12}
    payment = await customer.post("/api/client/chat/returning", body)
    await world.webhook(payment)
    return await world.until(
        lambda: customer.get(f"/api/client/payment/requests/{id_of(payment)}"),
        lambda seen: seen["session_id"] is not None,
    )


async def more_minutes(world: World, customer: Device, session_id: str) -> dict[str, Any]:
    """Create a paid extension."""
    payment = await world.request(customer, is_extension=True, session_id=session_id)
    await world.webhook(payment)
    return payment


async def extension(world: World, payment: dict[str, Any], *statuses: str) -> Any:
    """Wait until the payment's extension has one of these statuses."""

    async def look() -> Any:
        return await world.stack.sql(
            "SELECT id::text, session_id::text, status FROM session_extensions WHERE payment_request_id = $1::text::uuid",
            id_of(payment),
        )

    return (await world.until(look, lambda rows: rows and rows[0]["status"] in statuses))[0]


async def say_yes_or_no(world: World, mitra: Device, payment: dict[str, Any], *, accept: bool) -> None:
    row = await extension(world, payment, "pending")
    path = f"/api/shared/chat/sessions/{row['session_id']}/extensions/{row['id']}/answer"
    await mitra.post(path, {"accept": accept})


# -- unpaid requests


async def test_timeline_of_unpaid_request_tells_its_outcome(world: World) -> None:
    customer = await world.customer()
    pending = await world.request(customer)
    told = await story(world, pending)
    assert (kinds(told), told["why_no_chat"]) == (["created"], "The customer has not paid yet.")
    newer = await world.request(customer)
    told = await story(world, pending)
    assert (told["payment"]["status"], kinds(told)) == ("abandoned", ["created"])
    assert "was abandoned before payment: the customer cancelled it or made a newer one" in told["why_no_chat"]
    await world.webhook(newer, status="EXPIRED")
    told = await story(world, newer)
    assert told["payment"]["status"] == "expired"
    assert sorted(kinds(told)) == ["created", "deadline"]
    assert told["why_no_chat"] == "The payment did not arrive in time."
    assert "Rp 12.000" in told["entries"][0]["text"]
    for one in (new_id(), "nonsense"):
        await refused((await world.operator()).get(f"{PAYMENTS}/{one}/timeline"), 404, "NOT_FOUND")


# -- a chat


async def test_timeline_of_complete_chat_has_every_event_and_no_cause(world: World) -> None:
    customer, winner, late = await world.customer(unique("Dewi")), await world.mitra(unique("Ayu")), await world.mitra()
    await world.stack.sql(
        "UPDATE customers SET phone = $2, email = $3 WHERE id = $1::text::uuid", customer.user["id"], PHONE, EMAIL
    )
    payment = await world.paid(customer)
    assert (await story(world, payment))["why_no_chat"] is None
    for mitra in (winner, late):
        await wait_for_invitation(world, mitra, payment)
    accept = f"/api/mitra/chat-requests/{payment['session_id']}/accept"
    session_id = (await winner.post(accept))["id"]
    # A mitra who did not try is not called late.
    closed = f"{late.user['display_name']} had the request closed before they answered: another mitra accepted."
    assert closed in texts(await story(world, payment), "mitra_answered")
    await refused(late.post(accept), 409, "REQUEST_TAKEN")
    tried = await world.until(
        lambda: story(world, payment),
        lambda seen: any("was too late" in text for text in texts(seen, "mitra_answered")),
    )
    assert closed not in texts(tried, "mitra_answered")
    path = f"/api/shared/chat/sessions/{session_id}"
    for n in range(3):
        body = {"client_message_id": new_id(), "content": SECRET}
        await (customer, winner)[n % 2].post(f"{path}/messages", body)
    await end_early(world, customer, session_id)
    for party in (customer, winner):
        await party.post(f"{path}/closure", {"message": GOODBYE})
    await world.webhook(payment)
    await world.raw_webhook(
        {"id": f"inv-{id_of(payment)}", "external_id": id_of(payment).upper(), "status": "PAID", "amount": 12000}
    )
    told = await story(world, payment)
    assert told["why_no_chat"] is None
    assert collections.Counter(kinds(told)) == {
        "created": 1, "paid": 1, "search_began": 1, "mitra_asked": 2, "mitra_answered": 2, "paired": 1, "earned": 1,
        "goodbye": 2, "session_completed": 1,
    }  # fmt: skip
    order = kinds(told)
    steps = (
        "created",
        "paid",
        "search_began",
        "mitra_asked",
        "mitra_answered",
        "paired",
        "goodbye",
        "session_completed",
    )
    assert [order.index(step) for step in steps] == sorted(order.index(step) for step in steps)
    assert any(winner.user["display_name"] in text for text in texts(told, "paired"))
    assert texts(told, "goodbye") == [f"The {side} said goodbye: “{GOODBYE}”" for side in ("customer", "mitra")]
    assert "3 messages" in texts(told, "session_completed")[0]
    assert "ended by the customer" in texts(told, "session_completed")[0]
    assert sum("duplicate" in text for text in texts(told, "webhook")) == 2


async def test_timeline_shows_confirmation_by_hand_and_replay(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    payment = await world.request(customer)
    await world.webhook(payment, token="wrong")
    await world.webhook(payment, currency="USD")
    await operator.post(f"{PAYMENTS}/{id_of(payment)}/confirm")
    row = (await operator.get("/internal/webhook-logs", q=id_of(payment)))["items"][0]
    await operator.post(f"/internal/webhook-logs/{row['id']}/replay")
    told = await story(world, payment)
    assert kinds(told)[:3] == ["created", "confirmed_by_operator", "paid"]
    assert "Root confirmed" in texts(told, "confirmed_by_operator")[0]
    first, second, third = texts(told, "webhook")
    assert ("invalid token, 401" in first, "conflict, 409" in second) == (True, True)
    assert "replayed by an operator" in third
    assert told["why_no_chat"] is None


async def test_timeline_keeps_the_gateways_calls_among_calls_without_token(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    payment = await world.request(customer)
    await world.webhook(payment, token="wrong")
    await world.stack.sql(
        """INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, external_id, raw_body)
           SELECT uuidv7(), received_at - interval '2 minutes', source_ip, false, external_id, raw_body
           FROM webhook_logs, generate_series(1, 500) WHERE external_id = $1""",  # in the last minute they'd use the budget
        id_of(payment),
    )
    await world.webhook(payment)
    told = await operator.get(f"{PAYMENTS}/{id_of(payment)}/timeline")
    calls = texts(told, "webhook")
    assert len(calls) == 500
    assert "Result: confirmed, 200" in calls[-1]


# -- the nine causes


async def test_timeline_explains_no_mitra_available(world: World) -> None:
    async with world.setting(pairing_blast_timeout_seconds=1):
        search = await world.paid(await world.customer())
        await search_is_over(world, search["session_id"])
        nobody = await failed(world, search)
        check_why(nobody, "no_mitra_available")
        assert kinds(nobody) == ["created", "paid", "search_began", "search_failed", "failed"]
        customer, silent = await world.customer(), await world.mitra()
        payment = await world.paid(customer)
        operator = await world.operator()
        await world.until(
            lambda: operator.get(f"{PAYMENTS}/{id_of(payment)}/timeline"),
            lambda told: any("(round 2)" in text for text in texts(told, "mitra_asked")),
        )
        await silent.post("/api/mitra/status/offline")
        await search_is_over(world, payment["session_id"])
        told = await failed(world, payment)
    check_why(told, "no_mitra_available")
    asks = [kind for kind in kinds(told) if kind.startswith("mitra_")]
    assert asks == ["mitra_asked", "mitra_answered"] * (len(asks) // 2)  # each answer before the next invitation
    assert len(asks) >= 4


async def test_timeline_explains_all_mitras_rejected(world: World) -> None:
    customer, mitras = await world.customer(), [await world.mitra(unique("Ayu")) for _ in range(2)]
    payment = await world.paid(customer)
    for mitra in mitras:
        await wait_for_invitation(world, mitra, payment)
    for mitra in mitras:
        await mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/reject")
    told = await failed(world, payment)
    check_why(told, "all_mitras_rejected")
    assert [text for text in texts(told, "mitra_answered") if text.endswith("rejected the request.")] == [
        f"{mitra.user['display_name']} rejected the request." for mitra in mitras
    ]
    assert kinds(told)[-2:] == ["search_failed", "failed"]
    (failure,) = await world.stack.sql(
        "SELECT id::text FROM pairing_failures WHERE payment_request_id = $1::text::uuid", id_of(payment)
    )
    path = f"/internal/failed-pairings/{failure['id']}"
    await (await world.operator()).call("PATCH", path, {"operator_action": "refunded"})
    told = await story(world, payment)
    assert texts(told, "operator_acted") == ["Root refunded the payment."]
    assert kinds(told)[-1] == "operator_acted"


async def test_timeline_explains_targeted_mitra_offline(world: World) -> None:
    customer, mitra = await a_returning_customer(world)
    body = {"mitra_id": mitra.user["id"], "mode": "chat", "duration_minutes": 12}
    payment = await customer.post("/api/client/chat/returning", body)
    await mitra.post("/api/mitra/status/offline")
    await world.webhook(payment)
    told = await failed(world, payment)
    check_why(told, "targeted_mitra_offline")
    assert kinds(told) == ["created", "paid", "search_began", "search_failed", "failed"]
    assert mitra.user["display_name"] in texts(told, "search_began")[0]


async def test_timeline_explains_targeted_mitra_rejected_and_the_fallback(world: World) -> None:
    customer, mitra = await a_returning_customer(world)
    payment = await returning(world, customer, mitra)
    await wait_for_invitation(world, mitra, payment)
    await mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/reject")
    told = await failed(world, payment)
    check_why(told, "targeted_mitra_rejected")
    assert kinds(told) == [
        "created", "paid", "search_began", "mitra_asked", "mitra_answered", "search_failed", "failed",
    ]  # fmt: skip
    other = await world.mitra(unique("Bima"))
    again = {"payment_request_id": id_of(payment)}
    await customer.post("/api/client/chat/fallback-to-blast", again)
    told = await story(world, payment)
    assert told["why_no_chat"] is None  # a chat is possible again
    assert kinds(told)[7:9] == ["tried_again", "search_began"]
    assert mitra.user["display_name"] in texts(told, "search_began")[0]
    assert "all available mitras" in texts(told, "search_began")[1]
    found_again = await customer.get(f"/api/client/payment/requests/{id_of(payment)}")
    await wait_for_invitation(world, other, found_again)
    await other.post(f"/api/mitra/chat-requests/{found_again['session_id']}/accept")
    told = await story(world, payment)
    assert (told["why_no_chat"], kinds(told)[-2:]) == (None, ["paired", "earned"])


async def test_timeline_shows_the_other_mitra_whom_the_customer_asked(world: World) -> None:
    customer, mitra = await a_returning_customer(world)
    other = await world.mitra(unique("Bima"))
    operator = await world.operator()
    body = {"customer_id": customer.user["id"], "mitra_id": other.user["id"]}
    await operator.post("/internal/_test/seed-history-session", body)
    payment = await returning(world, customer, mitra)
    await wait_for_invitation(world, mitra, payment)
    await mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/reject")
    await failed(world, payment)
    again = {"payment_request_id": id_of(payment), "mitra_id": other.user["id"]}
    await customer.post("/api/client/chat/retarget", again)
    told = await story(world, payment)
    assert told["why_no_chat"] is None
    assert kinds(told)[7:9] == ["tried_again", "search_began"]
    assert other.user["display_name"] in texts(told, "search_began")[1]


async def test_timeline_explains_targeted_mitra_timeout(world: World) -> None:
    async with world.setting(returning_chat_confirmation_timeout_seconds=1):
        customer, mitra = await a_returning_customer(world)
        told = await failed(world, await returning(world, customer, mitra))
    check_why(told, "targeted_mitra_timeout")
    assert "did not answer in time" in texts(told, "mitra_answered")[0]
    assert kinds(told)[-3:] == ["mitra_answered", "search_failed", "failed"]


async def test_timeline_shows_a_fallback_before_the_answer_in_order(world: World) -> None:
    customer, mitra = await a_returning_customer(world)
    other = await world.mitra(unique("Bima"))
    payment = await returning(world, customer, mitra)
    await wait_for_invitation(world, mitra, payment)
    await customer.post("/api/client/chat/fallback-to-blast", {"payment_request_id": id_of(payment)})
    await wait_for_invitation(world, other, payment)
    told = await story(world, payment)
    assert told["why_no_chat"] is None
    assert mitra.user["display_name"] in texts(told, "search_began")[0]
    assert kinds(told)[:6] == ["created", "paid", "search_began", "mitra_asked", "tried_again", "mitra_answered"]
    assert kinds(told)[6:] == ["mitra_asked"] * (len(kinds(told)) - 6)
    await customer.post("/api/client/chat/cancel", {"payment_request_id": id_of(payment)})
    told = await failed(world, payment)
    check_why(told, "customer_cancelled")
    assert kinds(told).count("tried_again") == 1
    assert mitra.user["display_name"] in texts(told, "search_began")[0]


async def test_timeline_explains_payment_session_expired(world: World) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    await customer.post(f"/api/client/payment/requests/{id_of(payment)}/abandon")
    await world.webhook(payment)
    told = await failed(world, payment)
    check_why(told, "payment_session_expired", "given_up")
    assert kinds(told) == ["created", "paid", "failed"]
    assert "late payment recorded" in texts(told, "webhook")[0]
    late = await world.request(customer)
    await world.stack.sql(
        """UPDATE payment_requests SET status = 'expired', created_at = created_at - interval '2 hours',
             expires_at = now() - interval '1 hour' WHERE id = $1::text::uuid""",
        id_of(late),
    )
    await world.webhook(late)
    told = await failed(world, late)
    check_why(told, "payment_session_expired", "late")
    assert kinds(told) == ["created", "deadline", "paid", "failed"]


async def test_timeline_explains_discount_used_elsewhere(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra(unique("Ayu"))
    await (await world.operator()).post(
        "/internal/_test/seed-history-session", {"customer_id": customer.user["id"], "mitra_id": mitra.user["id"]}
    )
    payment = await world.request(customer)
    await world.stack.sql(
        "UPDATE payment_requests SET is_first_session_discount = true WHERE id = $1::text::uuid", id_of(payment)
    )
    assert (await world.webhook(payment))[1]["processing_result"] == "paid_not_pairable"
    told = await failed(world, payment)
    check_why(told, "payment_session_expired", "discount_used")


async def test_timeline_explains_customer_cancelled(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.paid(customer)
    await wait_for_invitation(world, mitra, payment)
    await customer.post("/api/client/chat/cancel", {"payment_request_id": id_of(payment)})
    told = await failed(world, payment)
    check_why(told, "customer_cancelled")
    assert "tried_again" not in kinds(told)
    assert kinds(told)[-3:] == ["mitra_answered", "search_cancelled", "failed"]


# -- extensions


@pytest.mark.parametrize("way", ["approved", "auto_approved", "rejected", "rejected by silence", "tripped", "too late"])
async def test_timeline_of_extension_shows_the_request_and_the_answer(world: World, way: str) -> None:
    customer, mitra = await world.customer(), await world.mitra(unique("Ayu"))
    session_id = await world.session(customer, mitra)
    silence = {"auto_approved": "auto_approve", "rejected by silence": "reject"}
    more = (
        {"extension_timeout_seconds": 1, "extension_default_action_on_timeout": silence[way]} if way in silence else {}
    )
    async with world.setting(**more):
        if way == "too late":
            payment = await world.request(customer, is_extension=True, session_id=session_id)
            await end_early(world, customer, session_id)
            await world.webhook(payment)
        else:
            payment = await more_minutes(world, customer, session_id)
        if way in ("approved", "rejected"):
            await say_yes_or_no(world, mitra, payment, accept=way == "approved")
        if way == "tripped":
            await extension(world, payment, "pending")
            await end_early(world, customer, session_id)
        if way in silence:
            await extension(world, payment, "auto_approved", "rejected")
    told = await story(world, payment)
    assert "an extension of 12 minutes" in texts(told, "created")[0]
    assert any(mitra.user["display_name"] in text for text in texts(told, "session"))
    mine = [kind for kind in kinds(told) if kind not in ("session", "session_closing")]
    if way in ("approved", "auto_approved"):
        assert told["why_no_chat"] is None
        assert mine == ["created", "paid", "extension_asked", "extension_answered", "earned"]
    elif way == "too late":
        check_why(told, "extension_safeguard_tripped", "session_ended")
        assert mine[0] == "created"
        assert mine[-1] == "failed"
    else:
        happened = {"tripped": "session_ended", "rejected": "rejected"}.get(way, "not_answered")
        said = {
            "session_ended": "The session ended before the mitra answered.",
            "rejected": "The mitra rejected.",
            "not_answered": "The mitra did not answer, which counted as a rejection.",
        }
        assert texts(told, "extension_answered") == [said[happened]]
        check_why(told, "extension_safeguard_tripped" if way == "tripped" else "extension_rejected", happened)
        assert mine == ["created", "paid", "extension_asked", "extension_answered", "failed"]
    assert id_of(payment) in await found(await world.operator(), PAYMENTS, by="payment_request_id", q=session_id)
