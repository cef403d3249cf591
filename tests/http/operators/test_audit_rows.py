"""Every write by an operator adds exactly one row to the audit log (docs/invariants.md#i16).

All write routes are tested without being listed.
"""

import contextlib
import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

from tests.access.fillers import a_phone
from tests.access.routes import ROUTES
from tests.http.operators.past_weeks import past_weeks
from tests.http.operators.steps import PASSWORD, a_role, an_account, an_operator, audit_count, signed_in, unique
from tests.stack import World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

TIERS, PROMOTION = "/internal/pricing/tiers", "/internal/pricing/promotions/first-session"
# These sign in and out, and change nothing else.
OF_ONESELF = {
    "/internal/auth/login", "/internal/auth/totp/verify", "/internal/auth/refresh", "/internal/auth/logout",
    "/internal/auth/sessions/{auth_session_id}",
}  # fmt: skip
# test_second_factor.py counts the rows of these: each needs an operator with a second factor.
SECOND_FACTOR = {
    "/internal/auth/totp", "/internal/auth/totp/begin", "/internal/auth/totp/confirm", "/internal/auth/step-up",
    "/internal/operators/{operator_id}/reset-totp",
}  # fmt: skip
WRITES = [
    route
    for route in ROUTES
    if route.listener == "internal"
    and route.method not in {"GET", "HEAD"}
    and route.path not in OF_ONESELF | SECOND_FACTOR
]
Call = tuple[str, Any]  # path, body


@attrs.frozen(kw_only=True)
class Scene:
    """The operators and objects of a call."""

    world: World
    root: Device

    async def mitra(self) -> str:
        """Create a mitra and return their id."""
        body = {"phone": a_phone(), "display_name": "Ayu", "is_active": True}
        return (await self.root.post("/internal/mitras", body))["id"]

    async def tier(self, **more: Any) -> dict[str, Any]:
        """Create a tier with minutes that no other tier has."""
        taken = {tier["minutes"] for tier in (await self.root.get(TIERS))["items"]}
        minutes = next(n for n in range(1000, 1441) if n not in taken)
        return await self.root.post(TIERS, {"mode": "call", "minutes": minutes, "price_idr": 1, **more})


async def add_mitra(scene: Scene) -> Call:
    return "/internal/mitras", {"phone": a_phone(), "display_name": "Ayu"}


async def change_mitra(scene: Scene) -> Call:
    return f"/internal/mitras/{await scene.mitra()}", {"is_active": False, "display_name": "Bima"}


async def force_offline(scene: Scene) -> Call:
    return f"/internal/mitras/{await scene.mitra()}/force-offline", None


async def add_operator(scene: Scene) -> Call:
    role = await a_role(scene.root, {})
    return "/internal/operators", {
        "email": f"{unique('op')}@example.test",
        "display_name": "x",
        "role_id": role["id"],
        "password": PASSWORD,
        "disabled": True,
    }


async def change_operator(scene: Scene) -> Call:
    made = await an_account(scene.root, (await a_role(scene.root, {}))["id"])
    return f"/internal/operators/{made['id']}", {"disabled": True, "password": PASSWORD + "x", "display_name": "y"}


async def add_role(scene: Scene) -> Call:
    return "/internal/roles", {"name": unique("role"), "permissions": {"mitras": "read"}}


async def change_role(scene: Scene) -> Call:
    role = await a_role(scene.root, {})
    return f"/internal/roles/{role['id']}", {"permissions": {"mitras": "read"}, "name": unique("role")}


async def act_on_failure(scene: Scene) -> Call:
    customer = await scene.world.customer()
    payment = await scene.world.paid(customer)
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    (failure,) = [
        row
        for row in (await scene.root.get("/internal/failed-pairings", limit=200))["items"]
        if row["payment_request_id"] == payment["payment_request_id"]
    ]
    return f"/internal/failed-pairings/{failure['id']}", {"operator_action": "refunded"}


async def refund(scene: Scene) -> Call:
    path, _ = await act_on_failure(scene)
    return f"{path}/refund", {"reason": "no mitra came"}


async def refund_several(scene: Scene) -> Call:
    path, _ = await act_on_failure(scene)
    return "/internal/failed-pairings/refund", {"ids": [path.rpartition("/")[2]]}


async def block(scene: Scene) -> Call:
    return f"/internal/customers/{(await scene.world.customer()).user['id']}/block", {"reason": "insults"}


async def unblock(scene: Scene) -> Call:
    path, body = await block(scene)
    await scene.root.post(path, body)
    return path.replace("/block", "/unblock"), None


async def correct_name(scene: Scene) -> Call:
    return f"/internal/customers/{(await scene.world.customer()).user['id']}", {"display_name": "Dewi"}


async def export(scene: Scene) -> Call:
    return f"/internal/customers/{(await scene.world.customer()).user['id']}/export", None


async def erase(scene: Scene) -> Call:
    return f"/internal/customers/{(await scene.world.customer()).user['id']}/erase", None


async def export_of_mitra(scene: Scene) -> Call:
    return f"/internal/mitras/{(await scene.world.mitra(online=False)).user['id']}/export", None


async def erase_mitra(scene: Scene) -> Call:
    mitra_id = (await scene.world.mitra(online=False)).user["id"]
    await scene.root.call("PATCH", f"/internal/mitras/{mitra_id}", {"is_active": False})
    return f"/internal/mitras/{mitra_id}/erase", None


async def sign_customer_out(scene: Scene) -> Call:
    return f"/internal/customers/{(await scene.world.customer()).user['id']}/sign-out", {"confirm": True}


async def sign_mitra_out(scene: Scene) -> Call:
    return f"/internal/mitras/{(await scene.world.mitra(online=False)).user['id']}/sign-out", {"confirm": True}


async def device_of(scene: Scene, user_id: str) -> str:
    (device,) = await scene.world.stack.sql("SELECT id::text FROM auth_sessions WHERE user_id = $1", user_id)
    return f"{user_id}/auth-sessions/{device['id']}?confirm=true"


async def end_device_of_customer(scene: Scene) -> Call:
    return f"/internal/customers/{await device_of(scene, (await scene.world.customer()).user['id'])}", None


async def end_device_of_mitra(scene: Scene) -> Call:
    return f"/internal/mitras/{await device_of(scene, (await scene.world.mitra(online=False)).user['id'])}", None


async def resolve_report(scene: Scene) -> Call:
    customer = await scene.world.customer()
    session_id = await scene.world.session(customer, await scene.world.mitra())
    report = await customer.post(f"/api/shared/chat/sessions/{session_id}/report", {"reason": "rude"})
    return f"/internal/reports/{report['id']}", {"resolution": "warned"}


async def add_tier(scene: Scene) -> Call:
    spare = await scene.tier()
    return TIERS, {"mode": "chat", "minutes": spare["minutes"], "price_idr": 1}


async def change_tier(scene: Scene) -> Call:
    tier = await scene.tier()
    return f"{TIERS}/{tier['id']}", {"updated_at": tier["updated_at"], "price_idr": 2, "tag": "x"}


async def delete_tier(scene: Scene) -> Call:
    tier = await scene.tier()
    return f"{TIERS}/{tier['id']}?updated_at={tier['updated_at']}", None


async def reactivate_tier(scene: Scene) -> Call:
    tier = await scene.tier()
    gone = await scene.root.call("DELETE", f"{TIERS}/{tier['id']}", params={"updated_at": tier["updated_at"]})
    return f"{TIERS}/{tier['id']}/reactivate", {"updated_at": gone["updated_at"]}


async def schedule_price(scene: Scene) -> Call:
    tier = await scene.tier()
    starts_at = (dt.datetime.now(dt.UTC) + dt.timedelta(days=1)).isoformat()
    return f"{TIERS}/{tier['id']}/schedule", {"updated_at": tier["updated_at"], "price_idr": 2, "starts_at": starts_at}


async def cancel_price(scene: Scene) -> Call:
    path, body = await schedule_price(scene)
    (planned,) = (await scene.root.post(path, body))["scheduled"]
    return f"{path}/{planned['id']}", None


async def order_tiers(scene: Scene) -> Call:
    await scene.tier(sort_order=0)
    active = [tier for tier in (await scene.root.get(TIERS, mode="call"))["items"] if tier["is_active"]]
    items = [{"id": tier["id"], "updated_at": tier["updated_at"]} for tier in active]
    return f"{TIERS}/order", {"mode": "call", "items": items}


async def change_promotion(scene: Scene) -> Call:
    now = await scene.root.get(PROMOTION)
    return PROMOTION, {"updated_at": now["updated_at"], "gimmick_price_idr": now["gimmick_price_idr"] + 1}


async def confirm(scene: Scene) -> Call:
    payment = await scene.world.request(await scene.world.customer())
    return f"/internal/payment-requests/{payment['payment_request_id']}/confirm", None


async def make_good(scene: Scene) -> Call:
    session_id = await scene.world.session(await scene.world.customer(), await scene.world.mitra())
    (paid,) = await scene.world.stack.sql("SELECT payment_request_id FROM chat_sessions WHERE id = $1", session_id)
    body = {"amount": 1, "reason": "nobody answered", "by_hand": True, "reference": f"transfer-{session_id}"}
    return f"/internal/payment-requests/{paid['payment_request_id']}/refund", body


async def replay(scene: Scene) -> Call:
    payment = await scene.world.request(await scene.world.customer())
    await scene.world.webhook(payment, status="PENDING")
    (row,) = (await scene.root.get("/internal/webhook-logs", q=payment["payment_request_id"]))["items"]
    return f"/internal/webhook-logs/{row['id']}/replay", None


async def end_session(scene: Scene) -> Call:
    session_id = await scene.world.session(await scene.world.customer(), await scene.world.mitra())
    return f"/internal/sessions/{session_id}/end", {"reason": "asked by the customer"}


async def seed(scene: Scene) -> Call:
    customer = await scene.world.customer()
    body = {"customer_id": customer.user["id"], "mitra_id": await scene.mitra()}
    return "/internal/_test/seed-history-session", body


async def set_key(scene: Scene) -> Call:
    return "/internal/config/mitra_ping_interval_seconds", {"value": 15}


async def simulate(scene: Scene) -> Call:
    return "/internal/simulations", {"settings": {"blast_size": 7}}


async def set_ping(scene: Scene) -> Call:
    return "/internal/config/mitra-ping", {"stale_after_seconds": 45}


async def change_password(scene: Scene) -> Call:
    return "/internal/auth/password", {"current_password": PASSWORD, "new_password": "another good one 9"}


VALID: dict[str, Callable[[Scene], Awaitable[Call]]] = {
    "POST /internal/mitras": add_mitra,
    "PATCH /internal/mitras/{mitra_id}": change_mitra,
    "POST /internal/mitras/{mitra_id}/force-offline": force_offline,
    "POST /internal/operators": add_operator,
    "PATCH /internal/operators/{operator_id}": change_operator,
    "POST /internal/roles": add_role,
    "PATCH /internal/roles/{role_id}": change_role,
    "PATCH /internal/failed-pairings/{failure_id}": act_on_failure,
    "POST /internal/failed-pairings/{failure_id}/refund": refund,
    "POST /internal/failed-pairings/refund": refund_several,
    "PATCH /internal/customers/{customer_id}": correct_name,
    "POST /internal/customers/{customer_id}/export": export,
    "POST /internal/customers/{customer_id}/erase": erase,
    "POST /internal/mitras/{mitra_id}/export": export_of_mitra,
    "POST /internal/mitras/{mitra_id}/erase": erase_mitra,
    "POST /internal/customers/{customer_id}/block": block,
    "POST /internal/customers/{customer_id}/unblock": unblock,
    "POST /internal/customers/{customer_id}/sign-out": sign_customer_out,
    "POST /internal/mitras/{mitra_id}/sign-out": sign_mitra_out,
    "DELETE /internal/customers/{customer_id}/auth-sessions/{auth_session_id}": end_device_of_customer,
    "DELETE /internal/mitras/{mitra_id}/auth-sessions/{auth_session_id}": end_device_of_mitra,
    "PATCH /internal/reports/{report_id}": resolve_report,
    "POST /internal/pricing/tiers": add_tier,
    "PATCH /internal/pricing/tiers/{tier_id}": change_tier,
    "DELETE /internal/pricing/tiers/{tier_id}": delete_tier,
    "POST /internal/pricing/tiers/{tier_id}/reactivate": reactivate_tier,
    "POST /internal/pricing/tiers/{tier_id}/schedule": schedule_price,
    "DELETE /internal/pricing/tiers/{tier_id}/schedule/{schedule_id}": cancel_price,
    "PUT /internal/pricing/tiers/order": order_tiers,
    "PATCH /internal/pricing/promotions/first-session": change_promotion,
    "POST /internal/payment-requests/{request_id}/confirm": confirm,
    "POST /internal/payment-requests/{request_id}/refund": make_good,
    "POST /internal/webhook-logs/{log_id}/replay": replay,
    "POST /internal/sessions/{session_id}/end": end_session,
    "POST /internal/_test/seed-history-session": seed,
    "PUT /internal/config/{key}": set_key,
    "PATCH /internal/config/{key}": set_key,
    "PATCH /internal/config/mitra-ping": set_ping,
    "POST /internal/simulations": simulate,
    "POST /internal/auth/password": change_password,
}


def test_every_write_route_has_a_valid_call() -> None:
    assert set(VALID) == {str(route) for route in WRITES}


@pytest.mark.parametrize("route", sorted(VALID))
async def test_write_adds_exactly_one_audit_row_and_a_refused_one_none(world: World, route: str) -> None:
    async with past_weeks(world.stack.transaction) if route.endswith("/simulations") else contextlib.nullcontext():
        await check_audit_rows(world, route)


async def check_audit_rows(world: World, route: str) -> None:
    """Check that the call of a route adds one row to the audit log, and that refused ones add none."""
    root = await world.operator()
    method, _, _ = route.partition(" ")
    caller, weak = root, await an_operator(world, {})
    if route.endswith("/password"):
        caller = weak.client
    address, body = await VALID[route](Scene(world=world, root=root))
    before = await audit_count(world)
    if caller is root:
        assert (await weak.client._once(method, address, body))[0] == 403
    else:
        assert (await weak.client._once(method, address, {**body, "current_password": "wrong one"}))[0] == 401
    assert (await root._once(method, address, {**(body or {}), "no such field": 1}))[0] in (
        {422} if body else {200, 204, 422}
    )
    if body:
        assert await audit_count(world) == before
    else:  # a route without a body may ignore one: then this call was the write
        caller = None if await audit_count(world) > before else caller
    if caller is not None:
        status, _ = await caller._once(method, address, body)
        assert status in (200, 201, 202, 204)
    assert await audit_count(world) == before + 1
    (row,) = await world.stack.sql(
        "SELECT operator_id::text, created_at > now() - interval '1 minute' AS fresh FROM operator_audit_log ORDER BY created_at DESC, id DESC LIMIT 1"
    )
    assert row["operator_id"] == (weak.id if route.endswith("/password") else root.user["id"])
    assert row["fresh"]
    if "tiers" in route:
        for tier in (await root.get(TIERS))["items"]:
            if tier["minutes"] >= 1000 and tier["is_active"]:
                await root.call("DELETE", f"{TIERS}/{tier['id']}", params={"updated_at": tier["updated_at"]})
    if route.endswith(PROMOTION):
        now = await root.get(PROMOTION)
        price = now["gimmick_price_idr"] - 1
        await root.call("PATCH", PROMOTION, {"updated_at": now["updated_at"], "gimmick_price_idr": price})


async def test_sign_in_and_sign_out_add_no_audit_row(world: World) -> None:
    somebody = await an_operator(world, {})
    before = await audit_count(world)
    device = await signed_in(world, somebody.email)
    await device.refresh()
    await device.post("/internal/auth/logout")
    assert await audit_count(world) == before
