"""Operators see the devices of customers and mitras, and sign them out (docs/product.md#devices)."""

import pytest

from core.base import ids
from tests.http.operators.steps import an_operator
from tests.http.operators.test_operators_desk import audit_rows
from tests.stack import World, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio


def path_of(user: Device, more: str = "auth-sessions") -> str:
    kind = "customers" if "is_anonymous" in user.user else "mitras"
    return f"/internal/{kind}/{user.user['id']}/{more}"


async def test_devices_are_listed_and_ended_one_by_one(world: World) -> None:
    mitra, root = await world.mitra(), await world.operator()
    mitra_id = mitra.user["id"]
    (device,) = (await root.get(path_of(mitra)))["items"]
    assert set(device) == {"id", "device_info", "created_at", "last_used_at", "expires_at"}
    ending = path_of(mitra, f"auth-sessions/{device['id']}")
    await refused(root.call("DELETE", path_of(mitra, f"auth-sessions/{ids.new_id()}")), 404, "NOT_FOUND")
    await root.call("DELETE", ending)
    await refused(root.call("DELETE", ending), 404, "NOT_FOUND")
    assert (await root.get(path_of(mitra)))["items"] == []
    await refused(mitra.get("/api/mitra/chat-requests"), 401, "REFRESH_INVALID")
    assert not (await root.get(f"/internal/mitras/{mitra_id}"))["is_online"]
    assert (await audit_rows(world, mitra_id))[-1]["action"] == "mitra.signed_out"


async def test_mitra_is_signed_out_everywhere(world: World) -> None:
    mitra, root = await world.mitra(), await world.operator()
    await root.post(path_of(mitra, "sign-out"), {})
    await root.post(path_of(mitra, "sign-out"), {})  # nothing is left to end
    await refused(mitra.get("/api/mitra/chat-requests"), 401, "REFRESH_INVALID")


async def test_last_device_of_an_anonymous_customer_needs_a_confirmation(world: World) -> None:
    root = await world.operator()
    for one in (True, False):
        customer = await world.customer()
        (device,) = (await root.get(path_of(customer)))["items"]
        ending = path_of(customer, f"auth-sessions/{device['id']}")
        await refused(root.call("DELETE", ending), 409, "LAST_SIGN_IN_METHOD")
        await refused(root.post(path_of(customer, "sign-out"), {}), 409, "LAST_SIGN_IN_METHOD")
        await customer.get("/api/client/auth/me")
        if one:
            await root.call("DELETE", f"{ending}?confirm=true")
        else:
            await root.post(path_of(customer, "sign-out"), {"confirm": True})
        await refused(customer.get("/api/client/auth/me"), 401, "REFRESH_INVALID")


async def test_devices_of_unknown_users_are_404_and_need_the_area(world: World) -> None:
    customer, root = await world.customer(), await world.operator()
    (device,) = (await root.get(path_of(customer)))["items"]
    for kind in ("customers", "mitras"):
        await refused(root.get(f"/internal/{kind}/{ids.new_id()}/auth-sessions"), 404, "NOT_FOUND")
        await refused(root.post(f"/internal/{kind}/{ids.new_id()}/sign-out", {}), 404, "NOT_FOUND")
    stranger = await world.customer()
    foreign = path_of(stranger, f"auth-sessions/{device['id']}")
    await refused(root.call("DELETE", f"{foreign}?confirm=true"), 404, "NOT_FOUND")
    reader = (await an_operator(world, {"customers": "read", "mitras": "read"})).client
    assert len((await reader.get(path_of(customer)))["items"]) == 1
    await refused(reader.post(path_of(customer, "sign-out"), {"confirm": True}), 403, "FORBIDDEN")
