"""A new phone that knows only the phone number finds everything that the customer ever had; another customer finds none
of it.
"""

from typing import Any

import pytest

from tests.http.extensions.steps import ask_for_extension
from tests.http.operators.steps import every
from tests.http.pairing.steps import acting, cancelling, end_now, expire_silently, now_in, pay_late, read_payment
from tests.http.sign_in.people import anonymous, by_phone, device, new_number, store_tokens
from tests.stack import World, open_failure, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
PAYMENTS, SESSIONS, TRANSACTIONS = (
    "/api/client/payment/requests",
    "/api/client/chat/sessions",
    "/api/client/transactions",
)
SESSION = "/api/shared/chat/sessions/{}"
WORDS = ("Halo Kak.", "Halo, aku di sini.", "Terima kasih sudah mendengarkan.")
GOODBYES = {"customer": "Sampai jumpa, Kak.", "mitra": "Jaga diri, ya."}


def goodbyes(session: dict[str, Any]) -> dict[str, str]:
    """Return each party's goodbye, as far as the reader may see it."""
    return {one["user_type"]: one["message"] for one in session["closures"]}


async def talk(world: World, customer: Device, mitra: Device, *, extended: bool = False) -> str:
    """Run a paid chat from payment to both goodbyes; the customer receives the mitra's. Return the session's id."""
    phone, other = await customer.open("chat"), await mitra.open("chat")
    session_id = await world.session(customer, mitra, duration_minutes=60)
    for socket, content in zip((phone, other, phone), WORDS, strict=True):
        assert (await socket.say(session_id, content))["type"] == "message_ack"
    if extended:
        payment, _ = await ask_for_extension(world, customer, session_id)
        await world.until(lambda: read_payment(customer, payment), lambda view: view["status"] == "consumed")
    await end_now(world, customer, session_id)
    for party, kind in ((customer, "customer"), (mitra, "mitra")):
        await party.post(SESSION.format(session_id) + "/closure", {"message": GOODBYES[kind]})
    done = await phone.wait("session_completed", where=lambda frame: frame["session"]["id"] == session_id)
    assert goodbyes(done["session"]) == GOODBYES
    for socket in (phone, other):
        socket.abort()
    return session_id


async def paid_late(world: World, customer: Device) -> dict[str, Any]:
    """Create a request whose payment arrives an hour after its deadline."""
    payment = await world.request(customer)
    await expire_silently(world, payment)
    await pay_late(world, payment)
    return payment


async def expired(world: World, customer: Device) -> dict[str, Any]:
    """Create a request that is never paid and that the sweep has expired."""
    payment = await world.request(customer)
    await world.stack.sql(
        f"UPDATE payment_requests SET expires_at = {now_in(world)} WHERE id = $1", payment["payment_request_id"]
    )
    await world.until(lambda: read_payment(customer, payment), lambda view: view["status"] == "expired")
    return payment


async def test_new_phone_finds_everything_of_its_number(fast_world: World) -> None:
    world, number = fast_world, new_number()
    account = await anonymous(world)
    store_tokens(account, await by_phone(world, account, number))
    mitra = await world.mitra()

    # Before the phone is verified: a chat with an extension, a payment that came too late, and a cancelled search.
    newcomer = await anonymous(world)
    first = await talk(world, newcomer, mitra, extended=True)
    late = await paid_late(world, newcomer)
    left = await world.paid(newcomer)
    await cancelling(newcomer, left)
    store_tokens(newcomer, await by_phone(world, newcomer, number))
    assert newcomer.user["id"] == account.user["id"]

    # As the account: a refund for an earlier request, an expired request, an abandoned one, and one more chat.
    await acting(world, late, "refunded")
    nobody_paid = await expired(world, newcomer)
    given_up = await world.request(newcomer)
    second = await talk(world, newcomer, mitra)

    fresh = device(world)
    store_tokens(fresh, await by_phone(world, fresh, number))
    sessions = {one["id"]: one for one in await every(fresh, SESSIONS, limit=2)}
    assert {one: view["status"] for one, view in sessions.items()} == {
        first: "completed", left["session_id"]: "cancelled", second: "completed",
    }  # fmt: skip
    assert {one["id"] for one in await every(fresh, SESSIONS, limit=2, mitra_id=mitra.user["id"])} == {first, second}
    chat = await fresh.open("chat")
    for session_id in (first, second):
        transcript = (await fresh.get(SESSION.format(session_id) + "/messages"))["items"]
        assert tuple(message["content"] for message in transcript) == WORDS
        await chat.send({"type": "sync", "session_id": session_id, "after": 0})
        page = await chat.wait("sync", where=lambda frame, one=session_id: frame["session_id"] == one)
        assert [message["id"] for message in page["messages"]] == [message["id"] for message in transcript]
        assert await fresh.get(SESSION.format(session_id)) == sessions[session_id]
        assert goodbyes(sessions[session_id]) == GOODBYES

    payments = {one["payment_request_id"]: one for one in await every(fresh, PAYMENTS, limit=2)}
    by_session = {one["session_id"]: one for one in payments.values() if not one["is_extension"]}
    assert by_session[first]["status"] == by_session[second]["status"] == "consumed"
    assert [one["session_id"] for one in payments.values() if one["is_extension"] and one["status"] == "consumed"] == [
        first
    ]
    assert payments[left["payment_request_id"]]["failure"] == open_failure("customer_cancelled")
    refund = payments[late["payment_request_id"]]
    assert (refund["status"], refund["failure"]["cause_tag"]) == ("failed_pairing", "payment_session_expired")
    assert (refund["failure"]["operator_action"], refund["failure"]["actioned_at"] is None) == ("refunded", False)
    assert payments[nobody_paid["payment_request_id"]]["status"] == "expired"
    assert payments[given_up["payment_request_id"]]["status"] == "abandoned"
    assert len(payments) == 7
    transactions = await every(fresh, TRANSACTIONS, limit=2)
    assert [(one["type"], one["session_id"]) for one in transactions] == [
        ("session", second), ("extension", first), ("session", first),
    ]  # fmt: skip

    stranger = await anonymous(world, "Rina")
    other = await stranger.open("chat")
    for session_id in sessions:
        await refused(stranger.get(SESSION.format(session_id)), 404, "NOT_FOUND")
        await refused(stranger.get(SESSION.format(session_id) + "/messages"), 404, "NOT_FOUND")
        await other.send({"type": "sync", "session_id": session_id, "after": 0})
        assert (await other.wait("error", "sync"))["code"] == "NOT_FOUND"
    for payment_id in payments:
        await refused(stranger.get(f"{PAYMENTS}/{payment_id}"), 404, "NOT_FOUND")
    for path in (SESSIONS, PAYMENTS, TRANSACTIONS):
        assert (await stranger.get(path)) == {"items": [], "next_cursor": None}
