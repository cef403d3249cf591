"""What an operator with few rights can read: texts that people wrote, and the data of other areas (docs/security.md)."""

import json
import secrets
from collections.abc import Iterator

import attrs
import pytest

from core.accounts.operators.rules import AREAS
from core.config.keys import KEYS
from tests.access.callers import OperatorAccount
from tests.access.fillers import filled
from tests.access.routes import CLOSED
from tests.http.operators.steps import a_role, an_account, an_operator, answer, unique
from tests.stack import World, new_id
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

READS = [route for route in CLOSED if route.listener == "internal" and route.method == "GET"]
ADD_REFUND = """INSERT INTO refunds
    (id, payment_request_id, failure_id, amount, status, reason, requested_by, requested_at, settled_at, failure_code)
  SELECT $1::text::uuid, f.payment_request_id, f.id, f.amount, 'failed', $3, $4::text::uuid, now(), now(), 'REFUND_NOT_SUPPORTED'
  FROM pairing_failures AS f WHERE f.id = $2::text::uuid"""
PII_ROWS = "SELECT count(*)::int FROM operator_audit_log WHERE action LIKE '%.read' AND operator_id = $1::text::uuid"


@attrs.frozen(kw_only=True)
class Planted:
    """Marked texts, and the ids of the objects that hold them by path parameter."""

    secrets: dict[str, str]
    ids: dict[str, list[str]]

    def paths(self) -> Iterator[str]:
        """Yield the address of each route that reads, of each planted object where it takes one."""
        for route in READS:
            (name,) = route.parameters or ("",)
            yield from [route.at(**{name: one}) for one in self.ids[name]] if name in self.ids else [filled(route)]


async def plant(world: World) -> Planted:
    """Make a chat with topics and goodbyes, an ended one, and a failure with a note, a refund and a bad call."""
    texts = {
        name: f"{unique('rahasia')} tentang {name}"
        for name in ("topic", "customer's goodbye", "mitra's goodbye", "reason", "note", "refund", "error")
    }
    root, customer, mitra = await world.operator(), await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra, topics=[texts["topic"]])
    chat = f"/api/shared/chat/sessions/{session_id}"
    await root.post(f"/internal/sessions/{session_id}/end", {"reason": texts["reason"]})
    await customer.post(f"{chat}/closure", {"message": texts["customer's goodbye"]})
    await mitra.post(f"{chat}/closure", {"message": texts["mitra's goodbye"]})
    request_id = (await root.get(f"/internal/sessions/{session_id}"))["payment_request_id"]
    payment = await world.paid(customer)
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    failures = (await root.get("/internal/failed-pairings", limit=200))["items"]
    failure_id = next(one["id"] for one in failures if one["payment_request_id"] == payment["payment_request_id"])
    note = {"operator_action": "no_action", "note": texts["note"]}
    await root.call("PATCH", f"/internal/failed-pairings/{failure_id}", note)
    await world.stack.sql(ADD_REFUND, new_id(), failure_id, texts["refund"], root.user["id"])
    (call,) = await world.stack.sql(
        "UPDATE webhook_logs SET processing_error = $2 WHERE external_id = $1 RETURNING id::text",
        request_id,
        texts["error"],
    )
    ids = {
        "session_id": [session_id], "failure_id": [failure_id], "log_id": [call[0]],
        "request_id": [request_id, payment["payment_request_id"]],
    }  # fmt: skip
    return Planted(secrets=texts, ids=ids)


async def found_in(client: Device, path: str, texts: dict[str, str]) -> set[str]:
    """Return the names of the texts that an answer has."""
    said = json.dumps((await answer(client.get(path)))[1], ensure_ascii=False)
    return {name for name, text in texts.items() if text in said}


async def test_texts_that_people_wrote_are_hidden_without_customers_pii_and_else_recorded(world: World) -> None:
    planted = await plant(world)
    everything_else = {area: "write" for area in AREAS if area != "customers.pii"}
    plain, trusted = await an_operator(world, everything_else), await an_operator(world, {"*": "read"})
    rows, seen = 0, set[str]()
    for path in planted.paths():
        assert await found_in(plain.client, path, planted.secrets) == set(), path
        shown = await found_in(trusted.client, path, planted.secrets)
        now = (await world.stack.sql(PII_ROWS, trusted.id))[0][0]
        most = 6 if path.startswith("/internal/search") else 1  # one for each kind of object that the search shows
        assert bool(shown) <= now - rows <= most, (path, shown)
        rows, seen = now, seen | shown
    assert seen == set(planted.secrets)
    session = await plain.client.get(f"/internal/sessions/{planted.ids['session_id'][0]}")
    assert session["topics"] == ["3 words, hidden"]
    assert [one["message"] for one in session["closures"]] == ["4 words, hidden"] * 2


async def marked(world: World) -> tuple[Planted, dict[str, set[str]]]:
    """Make objects of several areas with marked data; return them, and the areas that may read each mark."""
    root, mitra = await world.operator(), await world.mitra(unique("Mitra"), online=False)
    customer, operator = await world.customer(), await an_account(root, (await a_role(root, {}))["id"])
    email, limit = f"{unique('pelanggan')}@example.test", 100_000 + secrets.randbelow(800_000)
    pending = await world.request(customer)
    await world.webhook(pending, amount=1, description=(body := unique("body")))
    (call,) = await world.stack.sql(
        "SELECT id::text FROM webhook_logs WHERE external_id = $1", pending["payment_request_id"]
    )
    await world.stack.sql("UPDATE customers SET email = $2 WHERE id = $1::text::uuid", customer.user["id"], email)
    # Directly: its audit row would show it, as the log shows every change of a row.
    await world.stack.sql(
        "UPDATE app_config SET value = jsonb_build_object('value', $1::int) WHERE key = 'otp_max_per_ip_per_hour'",
        limit,
    )
    marks = {
        mitra.user["phone"]: {"mitras"},
        operator["email"]: {"operators"},
        email: set(),  # with `customers` and `customers.pii` together
        body: {"webhooks"},
        str(limit): {"security"},
    }
    ids = {
        "customer_id": [customer.user["id"]], "mitra_id": [mitra.user["id"]], "operator_id": [operator["id"]],
        "request_id": [pending["payment_request_id"]], "log_id": [call[0]], "key": ["otp_max_per_ip_per_hour"],
    }  # fmt: skip
    return Planted(secrets={mark: mark for mark in marks}, ids=ids), marks


async def test_operator_with_one_area_reads_no_other_areas_data(world: World) -> None:
    planted, marks = await marked(world)
    desk = await OperatorAccount(world).open()
    try:
        for area in AREAS:
            await desk.may({area: "write"})
            seen = set[str]()
            for path in planted.paths():
                here = await found_in(desk.client, path, planted.secrets)
                assert all(area in marks[mark] for mark in here), (area, path, here)
                seen |= here
            assert seen == {mark for mark, areas in marks.items() if area in areas}, area
    finally:
        await world.config("otp_max_per_ip_per_hour", KEYS["otp_max_per_ip_per_hour"].default)
