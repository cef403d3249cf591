"""The database has committed but the caller gets no answer: repeating the call has no second effect."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.faults import people as app
from tests.faults.proxy import Parked, When
from tests.faults.service import Service
from tests.stack import World, new_id

pytestmark = pytest.mark.anyio


async def call_losing_first_reply(place: Parked, work: Callable[[], Awaitable[Any]]) -> Any:
    """Run a call whose first attempt loses the database's reply."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work())
        await place.reached()
        place.drop()
    return task.result()


def answer_to(service: Service, key: str, statement: str, *, commit: bool = True) -> Parked:
    """Hold the reply to a statement on a process's connection to the database."""
    proxy = service.nodes[key].postgres
    if commit:
        return proxy.park("^COMMIT", when=When.AFTER, within=statement)
    return proxy.park(statement, when=When.AFTER)


async def test_payment_request_repeated_after_a_lost_commit_reply_is_created_once(
    proxied_world: World, proxied_stack: Service
) -> None:
    customer = await proxied_world.customer()
    place = answer_to(proxied_stack, "api", "INSERT INTO payment_requests")
    payment = await call_losing_first_reply(place, lambda: app.request(customer))
    rows = await proxied_world.stack.sql(
        "SELECT id::text FROM payment_requests WHERE customer_id = $1::uuid", customer.user["id"]
    )
    assert [row["id"] for row in rows] == [payment["payment_request_id"]]


async def test_webhook_repeated_after_a_lost_commit_reply_is_a_duplicate(
    proxied_world: World, proxied_stack: Service
) -> None:
    customer = await proxied_world.customer()
    payment = await app.request(customer)
    place = answer_to(proxied_stack, "api", "UPDATE webhook_logs SET http_status = \\$1")
    assert await call_losing_first_reply(place, lambda: app.pay(proxied_world, payment)) == "duplicate"
    # The signal that starts the search was lost with the reply: a sweep starts it a minute after the payment.
    await proxied_world.stack.sql(
        """UPDATE payment_requests SET confirmed_at = confirmed_at - interval '1 minute', created_at = created_at - interval '1 minute'
           WHERE id = $1::uuid""",
        payment["payment_request_id"],
    )
    proxied_stack.restart_cleanly("jobs")  # the sweep runs at the start of the process
    session_id = await app.searched(proxied_world, customer, payment)
    rows = await proxied_world.stack.sql(
        "SELECT id::text FROM chat_sessions WHERE payment_request_id = $1::uuid", payment["payment_request_id"]
    )
    assert [row["id"] for row in rows] == [session_id]


async def test_accept_repeated_after_a_lost_commit_reply_still_wins(
    proxied_world: World, proxied_stack: Service
) -> None:
    customer, mitra = await proxied_world.customer(), await proxied_world.mitra()
    payment = await app.request(customer)
    await app.pay(proxied_world, payment)
    session_id = await app.searched(proxied_world, customer, payment)
    place = answer_to(proxied_stack, "api", "status = 'active', mitra_id")
    await call_losing_first_reply(place, lambda: app.accept(mitra, session_id))
    seen = await app.view(customer, payment)
    assert (seen["status"], seen["session_id"]) == ("consumed", session_id)
    asked = await proxied_world.stack.sql(
        "SELECT response FROM chat_request_notifications WHERE session_id = $1::uuid AND mitra_id = $2::uuid",
        session_id,
        mitra.user["id"],
    )
    assert [row["response"] for row in asked] == ["ACCEPTED"]


async def test_refresh_repeated_after_a_lost_commit_reply_returns_the_same_successor(
    proxied_world: World, proxied_stack: Service
) -> None:
    customer = await proxied_world.customer()
    place = answer_to(proxied_stack, "api", "UPDATE auth_sessions SET refresh_token_hash")
    await call_losing_first_reply(place, lambda: app.retry(customer.refresh))
    await customer.refresh()  # the successor is valid, and nothing was revoked
    assert (await customer.get("/api/client/auth/me"))["id"] == customer.user["id"]


async def test_message_batch_repeated_after_a_lost_commit_reply_is_stored_once(
    proxied_world: World, proxied_stack: Service
) -> None:
    customer, mitra = await proxied_world.customer(), await proxied_world.mitra()
    session_id = await app.paired(proxied_world, customer, mitra)
    async with app.phones(customer, mitra) as (phone, desk):
        await phone.say(session_id, "satu")
        place = answer_to(proxied_stack, "realtime", r"chat_commit(_one)?\(", commit=False)
        ack = await call_losing_first_reply(place, lambda: phone.say(session_id, "dua"))
        assert ack["seq"] == 2
        assert [words for _, _, words in await app.stored(proxied_world, session_id)] == ["satu", "dua"]
        for one in (phone, desk):
            await one.until(lambda one=one: len(one.transcript(session_id)) == 2)
            await app.wait_for_transcript(proxied_world, one, session_id)


async def test_rest_message_repeated_after_a_lost_commit_reply_is_stored_once(
    proxied_world: World, proxied_stack: Service
) -> None:
    customer, mitra = await proxied_world.customer(), await proxied_world.mitra()
    session_id = await app.paired(proxied_world, customer, mitra)
    body = {"client_message_id": new_id(), "content": "sekali"}
    place = answer_to(proxied_stack, "api", r"chat_commit(_one)?\(", commit=False)
    path = f"/api/shared/chat/sessions/{session_id}/messages"
    made = await call_losing_first_reply(place, lambda: app.retry(lambda: customer.post(path, body)))
    assert made["seq"] == 1
    assert len(await app.stored(proxied_world, session_id)) == 1
