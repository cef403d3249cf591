"""A customer's history and both sides' unread counts: one payload each."""

import datetime as dt
import types
from typing import Any

import pytest

from core.base.actor import Actor, UserType
from core.base.pages import read_page
from core.sessions import histories
from core.storage.database import Database
from tests.http.pairing.steps import end_now, friends, run_out, wait_for_invitation
from tests.stack import World, new_id
from tools.driving.device import Device

pytestmark = pytest.mark.anyio


async def again(world: World, customer: Device, mitra: Device, **wish: object) -> str:
    """Create one more session of the two; it has ended."""
    session_id = await world.session(customer, mitra, targeted_mitra_id=mitra.user["id"], **wish)
    await end_now(world, customer, session_id)
    return session_id


async def say(party: Device, session_id: str, *words: str) -> None:
    """Send messages."""
    for content in words:
        body = {"client_message_id": new_id(), "content": content}
        await party.post(f"/api/shared/chat/sessions/{session_id}/messages", body)


async def test_history_has_one_row_per_mitra_with_all_list_fields(world: World) -> None:
    customer, ayu = await friends(world, topics=["lama"])
    newest = await again(world, customer, ayu, topics=["baru", "lain"])
    await ayu.post("/api/mitra/status/offline")  # so that the blast invites only the other mitra
    bima = await world.mitra("Bima")
    last = await world.session(customer, bima, mode="call")
    rows = (await customer.get("/api/client/chat/history"))["items"]
    paired_at = {
        row["id"]: row
        for row in await world.stack.sql(
            "SELECT mitra_id::text AS id, max(paired_at) AS at FROM chat_sessions WHERE customer_id = $1 AND mitra_id IS NOT NULL GROUP BY 1",
            customer.user["id"],
        )
    }
    shown = [{name: value for name, value in row.items() if name != "last_session_at"} for row in rows]
    assert shown == [
        {"mitra_id": bima.user["id"], "display_name": "Bima", "topics": None, "mitra_is_online": True, "sessions_count": 1,
         "last_session_id": last, "closures": []},
        {"mitra_id": ayu.user["id"], "display_name": "Ayu", "topics": ["baru", "lain"], "mitra_is_online": False, "sessions_count": 2,
         "last_session_id": newest, "closures": []},
    ]  # fmt: skip
    for row in rows:
        stamp = paired_at[row["mitra_id"]]["at"].strftime("%Y-%m-%dT%H:%M:%S")
        assert row["last_session_at"].startswith(stamp)
    page = await customer.get("/api/client/chat/history", limit=1)
    assert page["items"] == rows[:1]
    page = await customer.get("/api/client/chat/history", limit=1, cursor=page["next_cursor"])
    assert (page["items"], page["next_cursor"]) == (rows[1:], None)
    own = (await bima.get("/api/mitra/chat/history"))["items"]
    assert [session["id"] for session in own] == [last]


async def test_customer_who_was_never_paired_has_no_history(world: World) -> None:
    customer = await world.customer()
    payment = await world.paid(customer)
    assert payment["session_id"] is not None
    assert (await customer.get("/api/client/chat/history"))["items"] == []
    state = await customer.get("/api/client/onboarding-state")
    assert (state["has_consulted_before"], state["has_live_session"]) == (False, True)


class Counting:
    """A database wrapper that records statements."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.statements: list[str] = []

    async def fetch(self, sql: str, *args: object) -> list[object]:
        """Record a statement and run it."""
        self.statements.append(sql)
        return await self._inner.fetch(sql, *args)


async def test_history_of_many_mitras_is_one_statement(world: World) -> None:
    customer, mitra = await friends(world)
    for name in ("Bima", "Citra"):
        await mitra.post("/api/mitra/status/offline")
        mitra = await world.mitra(name)
        await end_now(world, customer, await world.session(customer, mitra))
    rows = (await customer.get("/api/client/chat/history"))["items"]
    assert [(row["display_name"], row["mitra_is_online"]) for row in rows] == [
        ("Citra", True),
        ("Bima", False),
        ("Ayu", False),
    ]
    database = await Database.connect(world.stack.database_url, size=1)
    counting, user_id = Counting(database), customer.user["id"]
    actor = Actor(
        user_type=UserType.CUSTOMER, user_id=user_id, auth_session_id=new_id(), expires_at=2**40, ids=(user_id,)
    )
    runtime: Any = types.SimpleNamespace(db=counting, now=lambda: dt.datetime.now(dt.UTC))
    try:
        found = await histories.customer_history(runtime, actor, read_page(None, None))
    finally:
        await database.pool.close()
    assert [row.mitra_id for row in found.items] == [row["mitra_id"] for row in rows]
    assert len(counting.statements) == 1


async def test_unread_counts_on_both_sides_until_they_are_read(world: World) -> None:
    mitra, customer, other = await world.mitra(), await world.customer(), await world.customer("Eka")
    nothing = {"session": None, "unread_count": 0, "searching": None}
    assert await customer.get("/api/client/chat/session/active-with-unread") == nothing
    search = await world.paid(customer)
    found = await customer.get("/api/client/chat/session/active-with-unread")
    assert found == {**nothing, "searching": found["searching"]}  # a search has no unread count
    await wait_for_invitation(world, mitra, search["session_id"])
    first = (await mitra.post(f"/api/mitra/chat-requests/{search['session_id']}/accept"))["id"]
    second = await world.session(other, mitra)
    await say(mitra, first, "halo", "apa kabar")
    await say(customer, first, "baik")
    await say(other, second, "satu", "dua", "tiga")

    async def of_customer(client: Device) -> tuple[str, int]:
        found = await client.get("/api/client/chat/session/active-with-unread")
        assert found["session"]["unread_count"] == found["unread_count"]
        return found["session"]["id"], found["unread_count"]

    async def of_mitra() -> list[tuple[str, int, str]]:
        items = (await mitra.get("/api/mitra/chat-requests/sessions/active-with-unread"))["items"]
        return [(one["id"], one["unread_count"], one["status"]) for one in items]

    assert await of_customer(customer) == (first, 2)
    assert await of_customer(other) == (second, 0)
    assert await of_mitra() == [(second, 3, "active"), (first, 1, "active")]
    await customer.post(f"/api/shared/chat/sessions/{first}/read", {"up_to": 1})
    await mitra.post(f"/api/shared/chat/sessions/{second}/read", {"up_to": 3})
    assert await of_customer(customer) == (first, 1)
    assert await of_mitra() == [(second, 0, "active"), (first, 1, "active")]
    await run_out(world, customer, first)
    assert await of_customer(customer) == (first, 1)  # expired
    await customer.post(f"/api/shared/chat/sessions/{first}/end")
    assert await of_customer(customer) == (first, 1)  # closing
    assert await of_mitra() == [(second, 0, "active"), (first, 1, "closing")]
    third = await world.session(customer, mitra)
    begun_before = "UPDATE chat_sessions SET created_at = created_at - interval '1 hour' WHERE id = $1::uuid"
    await world.stack.sql(begun_before, third)  # as a session of an anonymous customer who joined later
    assert await of_customer(customer) == (third, 0)  # this session is still running; the newer one is closing
    await run_out(world, customer, third)
    for session_id in (third, first):
        assert await of_customer(customer) == (session_id, int(session_id == first))
        for party in (customer, mitra):
            await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sampai jumpa"})
    assert await customer.get("/api/client/chat/session/active-with-unread") == nothing
    assert await of_mitra() == [(second, 0, "active")]
