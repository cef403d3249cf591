"""A changed name reaches the other party of each open chat (docs/product.md#names-and-privacy)."""

import pytest

from tests.http.pairing.steps import end_now, session_of
from tests.http.sign_in.people import by_phone, device, new_number, store_tokens
from tests.stack import World, new_id
from tools.driving.device import Device, RecordedSocket

pytestmark = pytest.mark.anyio


async def rename(customer: Device, name: str) -> None:
    """Change a customer's name."""
    await customer.call("PATCH", "/api/client/auth/profile", {"display_name": name})


async def signed_in(world: World, client: Device, number: str) -> Device:
    """Sign a device in by a phone number; an anonymous customer joins the number's account."""
    return store_tokens(client, await by_phone(world, client, number))


async def names_sent(socket: RecordedSocket) -> list[tuple[str, str]]:
    """Return (session, name) of each `peer_renamed` that a socket has got, once all earlier frames have come."""
    await socket.send({"type": "ping", "ref": (ref := new_id())})
    await socket.wait("pong", where=lambda frame: frame.get("ref") == ref)
    return [(one["session_id"], one["display_name"]) for one in socket.frames if one["type"] == "peer_renamed"]


async def test_name_of_a_customer_reaches_the_mitra_of_each_open_chat(world: World) -> None:
    customer, mitra = await world.customer("Dewi"), await world.mitra("Ayu")
    over = await world.session(customer, mitra)
    await end_now(world, customer, over)
    for party in (customer, mitra):
        await party.post(f"/api/shared/chat/sessions/{over}/closure", {"message": "Sampai jumpa"})
    running = await world.session(customer, mitra)
    theirs, own = await mitra.open("chat"), await customer.open("chat")
    await rename(customer, "Dewi")  # no change
    await rename(customer, " Sari ")
    event = await theirs.wait("peer_renamed")
    assert (event["session_id"], event["display_name"]) == (running, "Sari")
    assert (await session_of(mitra, running))["customer"]["display_name"] == "Sari"
    await end_now(world, customer, running)  # both may still say goodbye
    await rename(customer, "Rina")
    await theirs.wait("peer_renamed")
    assert await names_sent(theirs) == [(running, "Sari"), (running, "Rina")]
    assert await names_sent(own) == []


async def test_name_of_a_mitra_reaches_the_customers_of_their_open_chats(world: World) -> None:
    mitra, operator = await world.mitra("Ayu"), await world.operator()
    customers = [await world.customer() for _ in range(2)]
    chats = [(customer, await world.session(customer, mitra)) for customer in customers]
    sockets = [await customer.open("chat") for customer, _ in chats]
    path = f"/internal/mitras/{mitra.user['id']}"
    await operator.call("PATCH", path, {"display_name": "Ayu"})
    await operator.call("PATCH", path, {"display_name": "Ayu Lestari"})
    for socket, (_, session) in zip(sockets, chats, strict=True):
        await socket.wait("peer_renamed")
        assert await names_sent(socket) == [(session, "Ayu Lestari")]


@pytest.mark.parametrize("account_name", ["Sari", "Dewi", None])
async def test_joined_account_with_another_name_reaches_the_mitra(world: World, account_name: str | None) -> None:
    number = new_number()
    account = await signed_in(world, device(world), number)
    if account_name is not None:
        await rename(account, account_name)
    customer, mitra = await world.customer("Dewi"), await world.mitra("Ayu")
    session = await world.session(customer, mitra)
    socket = await mitra.open("chat")
    joined = await signed_in(world, customer, number)
    assert (await session_of(joined, session))["customer"]["display_name"] == (account_name or "Dewi")
    expected = [(session, "Sari")] if account_name == "Sari" else []
    assert await names_sent(socket) == expected
    await rename(joined, "Rina")
    await socket.wait("peer_renamed", where=lambda frame: frame["display_name"] == "Rina")
    assert await names_sent(socket) == [*expected, (session, "Rina")]


async def test_only_the_newest_name_of_each_chat_waits_for_a_device(world: World) -> None:
    mitra = await world.mitra("Ayu")
    await mitra.open("chat", ack=False)  # else plans of pushes lock the names, and a locked name stays
    chats = {}
    for name in ("Dewi", "Eka"):
        customer = await world.customer(name)
        chats[await world.session(customer, mitra)] = f"{name} 3"
        for number in (1, 2, 3):
            await rename(customer, f"{name} {number}")
    socket = await mitra.open("chat")
    for _ in chats:
        await socket.wait("peer_renamed")
    assert dict(await names_sent(socket)) == chats
    assert len(await names_sent(socket)) == len(chats)
