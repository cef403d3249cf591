"""Blocks between a customer and a mitra: the two are never paired again (docs/product.md#blocks)."""

import asyncio
from typing import Any

import pytest

from tests.http.extensions.steps import ask_for_extension, create_extension_payment, wait_for_status
from tests.http.pairing.steps import (
    accepting,
    closed,
    earned,
    end_now,
    failed,
    falling_back,
    friends,
    open_request,
    read_payment,
    responses,
    session_of,
    wait_for_invitation,
)
from tests.stack import World, at_once, open_failure, outcome, refused
from tests.tiers import rounds
from tests.verdicts import check_books
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
BY = pytest.mark.parametrize("by", ["customer", "mitra"])


def blocking(party: Device, session_id: str) -> Any:
    return party.post(f"/api/shared/chat/sessions/{session_id}/block")


def unblocking(party: Device, session_id: str) -> Any:
    return party.call("DELETE", f"/api/shared/chat/sessions/{session_id}/block")


async def blocks_of(party: Device) -> list[dict[str, Any]]:
    return (await party.get("/api/shared/blocks"))["items"]


async def ended(world: World, customer: Device, mitra: Device) -> str:
    """Return the id of a session of the two that has ended."""
    session_id = await world.session(customer, mitra)
    await end_now(world, customer, session_id)
    return session_id


async def blocked(world: World, by: str, customer: Device | None = None) -> tuple[Device, Device, str]:
    """Return a customer and a mitra after one of them has blocked the other, and the session of the two."""
    customer, mitra = customer or await world.customer(), await world.mitra()
    session_id = await ended(world, customer, mitra)
    await blocking(customer if by == "customer" else mitra, session_id)
    return customer, mitra, session_id


def targeted(customer: Device, mitra: Device) -> Any:
    wish = {"mitra_id": mitra.user["id"], "mode": "chat", "duration_minutes": 12}
    return customer.post("/api/client/chat/returning", wish)


async def looks_online(customer: Device) -> bool:
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    return row["mitra_is_online"]


# -- the routes


@BY
async def test_block_is_201_once_and_then_200_with_the_first_block(world: World, by: str) -> None:
    customer, mitra = await world.customer("Dewi"), await world.mitra("Ayu")
    first, second = await ended(world, customer, mitra), await ended(world, customer, mitra)
    party, name = (customer, "Ayu") if by == "customer" else (mitra, "Dewi")
    url = f"{world.stack.addresses.public}/api/shared/chat/sessions/{{}}/block"
    headers = {"Authorization": f"Bearer {party.access_token}"}
    async with party._http.post(url.format(first), headers=headers) as answer:
        assert answer.status == 201
        made = await answer.json()
    assert (made["session_id"], made["display_name"]) == (first, name)
    async with party._http.post(url.format(second), headers=headers) as answer:
        assert answer.status == 200
        assert await answer.json() == made
    assert await blocks_of(party) == [made]
    assert await blocks_of(mitra if by == "customer" else customer) == []


async def test_block_of_a_stranger_or_an_unknown_session_is_404(world: World) -> None:
    customer, mitra = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    for stranger in (await world.customer(), await world.mitra()):
        await refused(blocking(stranger, row["last_session_id"]), 404, "NOT_FOUND")
        await refused(unblocking(stranger, row["last_session_id"]), 404, "NOT_FOUND")
    await mitra.post("/api/mitra/status/offline")
    search = await world.paid(customer, accept_wait=True)
    await refused(blocking(customer, search["session_id"]), 404, "NOT_FOUND")  # there is no other party


@BY
async def test_only_the_own_block_is_lifted_by_any_session_of_the_two(world: World, by: str) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    first, second = await ended(world, customer, mitra), await ended(world, customer, mitra)
    own, other = (customer, mitra) if by == "customer" else (mitra, customer)
    await blocking(own, first)
    await blocking(other, first)
    await unblocking(own, second)
    await unblocking(own, second)  # a repeat changes nothing
    assert (await blocks_of(own), len(await blocks_of(other))) == ([], 1)
    await refused(targeted(customer, mitra), 409, "MITRA_OFFLINE")
    await unblocking(other, first)
    assert (await targeted(customer, mitra))["targeted_mitra_id"] == mitra.user["id"]


# -- what it keeps apart


@BY
async def test_blocked_pair_is_refused_as_offline_before_anything_is_paid(world: World, by: str) -> None:
    customer, mitra, _ = await blocked(world, by)
    assert not await looks_online(customer)
    stranger = await world.customer()

    async def seen() -> tuple[int, int]:
        shown = [await one.get("/api/client/mitras/availability") for one in (customer, stranger)]
        return shown[0]["available"], shown[1]["available"]

    await world.until(seen, lambda found: found[0] == found[1] - 1)
    await refused(targeted(customer, mitra), 409, "MITRA_OFFLINE")
    await refused(world.request(customer, targeted_mitra_id=mitra.user["id"]), 409, "MITRA_OFFLINE")
    async with world.setting(refuse_unservable_payments=True):  # of this world only the blocked mitra is online
        await refused(world.request(customer), 409, "NO_MITRA_AVAILABLE")
        assert (await world.request(await world.customer()))["status"] == "pending"


@BY
@pytest.mark.parametrize("size", [0, 1])
async def test_blast_never_asks_a_blocked_mitra(world: World, by: str, size: int) -> None:
    customer, mitra, _ = await blocked(world, by)
    async with world.setting(blast_size=size):
        payment = await world.paid(customer)
        assert await responses(world, payment["session_id"]) == {}
        await mitra.post("/api/mitra/status/offline")
        await mitra.post("/api/mitra/status/online")  # a mitra who becomes free is asked by the running searches
        free = await world.mitra()
        await wait_for_invitation(world, free, payment["session_id"])
        assert list(await responses(world, payment["session_id"])) == [free.user["id"]]
        await refused(accepting(mitra, payment["session_id"]), 404, "NOT_FOUND")
    rounds = await world.stack.sql(
        "SELECT with_room, askable FROM search_rounds WHERE session_id = $1", payment["session_id"]
    )
    assert [tuple(row) for row in rounds] == [(1, 0)]


@BY
async def test_targeted_search_whose_pair_was_blocked_before_the_payment_fails_and_falls_back(
    world: World, by: str
) -> None:
    customer, mitra = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    payment = await world.request(customer, targeted_mitra_id=mitra.user["id"])
    await blocking(customer if by == "customer" else mitra, row["last_session_id"])
    await world.webhook(payment)
    assert await failed(world, customer, payment) == "targeted_mitra_offline"
    view = await falling_back(customer, payment)
    assert view["status"] == "confirmed"
    assert await responses(world, view["session_id"]) == {}


@BY
async def test_block_closes_the_open_invitation_of_the_two(world: World, by: str) -> None:
    customer, mitra = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    payment = await world.paid(customer)
    await wait_for_invitation(world, mitra, payment["session_id"])
    desk = await mitra.open("pairing")
    await blocking(customer if by == "customer" else mitra, row["last_session_id"])
    assert await closed(desk, payment["session_id"]) == "timeout"
    assert await open_request(mitra, payment["session_id"]) is None
    assert await responses(world, payment["session_id"]) == {mitra.user["id"]: ["IGNORED"]}
    await refused(accepting(mitra, payment["session_id"]), 409, "REQUEST_CLOSED")
    other = await world.mitra()
    await wait_for_invitation(world, other, payment["session_id"])
    assert (await accepting(other, payment["session_id"]))["status"] == "active"


async def test_block_fails_the_targeted_search_for_the_mitra(world: World) -> None:
    customer, mitra = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    payment = await world.paid(customer, targeted_mitra_id=mitra.user["id"])
    await wait_for_invitation(world, mitra, payment["session_id"])
    await blocking(mitra, row["last_session_id"])
    assert await failed(world, customer, payment) == "targeted_mitra_offline"


# -- the running chat


@BY
async def test_running_chat_goes_on_and_its_extension_is_rejected(world: World, by: str) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    desk = await mitra.open("chat", ack=False)
    await blocking(customer if by == "customer" else mitra, session_id)
    body = {"client_message_id": "01933f2e-8a4c-7d3b-9f10-5a6b7c8d9e0f", "content": "halo"}
    assert (await customer.post(f"/api/shared/chat/sessions/{session_id}/messages", body))["seq"] == 1
    payment = await create_extension_payment(customer, session_id)
    await world.webhook(payment)
    await wait_for_status(world, payment, "rejected")
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == ("failed_pairing", open_failure("extension_rejected", "rejected"))
    assert (await session_of(mitra, session_id))["status"] == "active"
    await desk.wait("message")
    assert not [frame for frame in desk.frames if frame["type"].startswith("extension")]
    assert await earned(world, session_id) == [("session", 12000)]


@BY
async def test_block_rejects_the_open_extension(world: World, by: str) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    payment, _ = await ask_for_extension(world, customer, session_id)
    await blocking(customer if by == "customer" else mitra, session_id)
    await wait_for_status(world, payment, "rejected")
    assert (await read_payment(customer, payment))["failure"] == open_failure("extension_rejected", "rejected")


# -- races


@BY
async def test_block_and_acceptance_at_once_leave_the_chat_before_the_block_or_none(world: World, by: str) -> None:
    customer, mitra = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    party, seen = customer if by == "customer" else mitra, set[str]()
    for _ in range(rounds(6)):
        payment = await world.paid(customer)
        session_id = payment["session_id"]
        await wait_for_invitation(world, mitra, session_id)
        accepted, made = await at_once(accepting(mitra, session_id), blocking(party, row["last_session_id"]))
        assert made == "ok"
        seen.add(accepted)
        later = await world.stack.sql(
            "SELECT 1 FROM chat_sessions s, blocks b WHERE s.id = $1 AND b.mitra_id = s.mitra_id AND s.paired_at > b.created_at",
            session_id,
        )
        assert later == []
        if accepted == "ok":
            await end_now(world, customer, session_id)
        else:
            assert accepted == "REQUEST_CLOSED"
            assert await outcome(accepting(mitra, session_id)) == "REQUEST_CLOSED"
            await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
        await unblocking(party, row["last_session_id"])
    assert seen <= {"ok", "REQUEST_CLOSED"}
    check_books(await world.audit())


async def test_two_blocks_at_once_are_stored_once(world: World) -> None:
    customer, mitra = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    calls = [blocking(party, row["last_session_id"]) for party in (customer, mitra) for _ in range(4)]
    assert await at_once(*calls) == ["ok"] * 8
    rows = await world.stack.sql("SELECT blocked_by FROM blocks WHERE mitra_id = $1 ORDER BY 1", mitra.user["id"])
    assert [row["blocked_by"] for row in rows] == ["customer", "mitra"]


async def test_block_and_extension_at_once_earn_nothing_after_the_block(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    payment = await create_extension_payment(customer, session_id)
    await asyncio.gather(world.webhook(payment), blocking(mitra, session_id))
    await wait_for_status(world, payment, "rejected")
    assert await earned(world, session_id) == [("session", 12000)]
    check_books(await world.audit())
