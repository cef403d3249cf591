"""Blocks of an anonymous customer go with them into the account that they join (docs/product.md#blocks)."""

import pytest

from tests.http.pairing.steps import accepting, end_now, read_payment, responses, wait_for_invitation
from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.test_joined_accounts import a_family, join
from tests.stack import World, refused

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("by", ["customer", "mitra"])
async def test_block_goes_with_the_anonymous_customer_into_the_account(
    world: World, provider_a: IdentityServer, by: str
) -> None:
    family, mitra = await a_family(world, provider_a), await world.mitra()
    session_id = await world.session(family.anonymous, mitra)
    await end_now(world, family.anonymous, session_id)
    party = family.anonymous if by == "customer" else mitra
    await party.post(f"/api/shared/chat/sessions/{session_id}/block")
    joined = await join(world, family)
    (row,) = (await joined.get("/api/client/chat/history"))["items"]
    assert not row["mitra_is_online"]
    wish = {"mitra_id": mitra.user["id"], "mode": "chat", "duration_minutes": 12}
    await refused(joined.post("/api/client/chat/returning", wish), 409, "MITRA_OFFLINE")
    payment = await world.paid(joined)
    assert await responses(world, payment["session_id"]) == {}
    mine = joined if by == "customer" else mitra
    assert len((await mine.get("/api/shared/blocks"))["items"]) == 1
    await mine.call("DELETE", f"/api/shared/chat/sessions/{session_id}/block")
    assert (await mine.get("/api/shared/blocks"))["items"] == []


async def test_equal_blocks_become_one_and_hold_for_the_search_that_came_along(
    world: World, provider_a: IdentityServer
) -> None:
    family, mitra = await a_family(world, provider_a), await world.mitra()
    for device in (family.old, family.anonymous):
        session_id = await world.session(device, mitra)
        await end_now(world, device, session_id)
        if device is family.old:
            await mitra.post(f"/api/shared/chat/sessions/{session_id}/block")
    payment = await world.paid(family.anonymous)
    await wait_for_invitation(world, mitra, payment["session_id"])
    await join(world, family)
    await refused(accepting(mitra, payment["session_id"]), 409, "REQUEST_CLOSED")


async def test_block_by_an_operator_goes_into_the_account(world: World, provider_a: IdentityServer) -> None:
    family, root = await a_family(world, provider_a), await world.operator()
    await root.post(f"/internal/customers/{family.anonymous.user['id']}/block", {"reason": "abuse"})
    pending = await world.request(family.old)
    joined = await join(world, family)
    await refused(world.request(joined), 403, "ACCOUNT_BLOCKED")
    await refused(world.request(family.old), 403, "ACCOUNT_BLOCKED")
    assert (await read_payment(joined, pending))["status"] == "abandoned"
    await root.post(f"/internal/customers/{family.anonymous.user['id']}/unblock")
    assert (await world.request(joined))["status"] == "pending"
