"""A service as operators see it: active chats, failed payments, webhook calls that made no sense."""

import re

import attrs

from api.internal.control_center import FOLDER
from tests.http.operators.steps import an_operator
from tests.http.operators.test_simulations import stored
from tests.stack import World, new_id, payment_call
from tools.driving.device import Device


@attrs.frozen(kw_only=True)
class Scene:
    """The ids of the objects that can be shown."""

    failure: str
    session: str  # ended, with both goodbyes
    running: str  # an active session
    payment: str
    pending: str
    mitra: str
    customer: str
    webhook: str
    tier: str
    report: str
    simulation: str


ROUTE = re.compile(r'^route\("/([\w-]+)"', re.MULTILINE)  # a page whose address has no id
GOODBYES = {"customer": "Terima kasih, Kak Ayu.", "mitra": "Sama-sama, Sari. Jaga diri."}


async def ended_with_goodbyes(world: World, customer: Device, mitra: Device) -> str:
    """Create a session that the customer ended early, with both goodbyes; return its id."""
    session_id = await world.session(customer, mitra)
    path = f"/api/shared/chat/sessions/{session_id}"
    async with world.setting(early_end_customer_enabled=True):
        await customer.post(f"{path}/end")
    for side, party in (("customer", customer), ("mitra", mitra)):
        await party.post(f"{path}/closure", {"message": GOODBYES[side]})
    return session_id


async def play(world: World) -> Scene:
    """Create the objects through the public interfaces."""
    root = await world.operator()
    ayu = await world.mitra("Ayu Lestari")
    await world.mitra("Citra Dewi", online=False)
    dewi, budi, sari = await world.customer("Dewi"), await world.customer("Budi"), await world.customer("Sari")
    running = await world.session(dewi, ayu)
    ended = await ended_with_goodbyes(world, sari, ayu)
    async with world.estimate(p50=40, p90=125):
        left = await world.paid(budi)
        await world.session(await world.customer("Rina"), ayu)
        await world.request(sari, duration_minutes=12)
    await budi.post("/api/client/chat/cancel", {"payment_request_id": left["payment_request_id"]})
    acted = await world.paid(budi)
    await budi.post("/api/client/chat/cancel", {"payment_request_id": acted["payment_request_id"]})
    pending = await world.request(sari, duration_minutes=30)
    said = {"reason": "no_answer", "message": "Saya menunggu sepuluh menit tanpa jawaban."}
    report = await sari.post(f"/api/shared/chat/sessions/{ended}/report", said)
    await world.raw_webhook(b"{not json")
    await world.raw_webhook({**payment_call(pending), "external_id": new_id()})
    await world.raw_webhook(payment_call(pending), token="a wrong one")
    failures = (await root.get("/internal/failed-pairings", operator_action="none", limit=200))["items"]
    mine = {one["payment_request_id"]: one["id"] for one in failures}
    done = mine[acted["payment_request_id"]]
    await root.call("PATCH", f"/internal/failed-pairings/{done}", {"operator_action": "refunded"})
    tier = (await root.get("/internal/pricing/tiers", mode="chat"))["items"][0]
    changed = {"updated_at": tier["updated_at"], "tag": "new" if tier["tag"] is None else None}
    tier = await root.call("PATCH", f"/internal/pricing/tiers/{tier['id']}", changed)
    if not tier["scheduled"]:
        planned = {"price_idr": 48_000, "starts_at": "2030-11-29T00:00:00+07:00", "updated_at": tier["updated_at"]}
        await root.post(f"/internal/pricing/tiers/{tier['id']}/schedule", planned)
    await world.config("max_customers_per_mitra", 4)
    await an_operator(world, {"failed_pairings": "write", "payments": "read", "activity": "read"})
    calls = (await root.get("/internal/webhook-logs", limit=1))["items"]
    return Scene(
        failure=mine[left["payment_request_id"]], session=ended, running=running, payment=left["payment_request_id"],
        pending=pending["payment_request_id"], mitra=ayu.user["id"], customer=dewi.user["id"],
        webhook=calls[0]["id"], tier=tier["id"],
        report=report["id"], simulation=await stored(world, {"max_customers_per_mitra": 5}),
    )  # fmt: skip


def addresses(scene: Scene) -> dict[str, str]:
    """Return the address of every page of the control center, by the name of its picture.

    A page that shows something without an id or a filter needs no entry.
    """
    named = {
        "overview": "#/",
        "failed-pairings": "#/failed-pairings?operator_action=all",
        "failed-pairing": f"#/failed-pairings/{scene.failure}",
        "reports": "#/reports",
        "report": f"#/reports/{scene.report}",
        "payments": "#/payments",
        "payment": f"#/payments/{scene.pending}",
        "sessions": "#/sessions",
        "session": f"#/sessions/{scene.session}",
        "mitras": "#/mitras",
        "mitra": f"#/mitras/{scene.mitra}",
        "activity": "#/activity",
        "requests": "#/activity/log",
        "figures": "#/figures",
        "unserved": "#/figures/unserved",
        "promises": "#/figures/promises",
        "customers": "#/customers",
        "customer": f"#/customers/{scene.customer}",
        "pricing": "#/pricing",
        "price-history": f"#/pricing/tiers/{scene.tier}",
        "discount-history": "#/pricing/promotion",
        "settings": "#/settings",
        "what-if": f"#/settings/what-if?id={scene.simulation}",
        "webhooks": "#/webhooks",
        "webhook": f"#/webhooks/{scene.webhook}",
        "operators": "#/operators",
        "roles": "#/roles",
        "audit-log": "#/audit-log",
        "ledger-audit": "#/ledger",
        "account": "#/account",
    }
    shown = {re.split("[?/]", address.removeprefix("#/"))[0] for address in named.values()}
    rest = [path for path in ROUTE.findall((FOLDER / "app.js").read_text()) if path not in shown]
    return {**named, **{path: f"#/{path}" for path in rest}}
