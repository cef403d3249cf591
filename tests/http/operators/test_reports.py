"""Parties report sessions, and operators resolve the reports (docs/product.md#reports)."""

from typing import Any

import pytest

from core.base import ids
from core.sessions.reports.rules import Reason
from tests.http.operators.steps import an_operator, audits
from tests.http.operators.test_operators_desk import audit_rows
from tests.http.pairing.steps import end_now, friends
from tests.stack import World, at_once, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
FIELDS = {
    "id", "session_id", "customer", "mitra", "reporter", "reason", "message", "status", "resolution", "note", "resolved_by", "resolved_at",
    "created_at",
}  # fmt: skip


def reporting(party: Device, session_id: str, reason: str = "rude", **more: Any) -> Any:
    return party.post(f"/api/shared/chat/sessions/{session_id}/report", {"reason": reason, **more})


def resolving(operator: Device, report: dict[str, Any], **body: Any) -> Any:
    return operator.call("PATCH", f"/internal/reports/{report['id']}", body)


async def listed(operator: Device, session_id: str, **which: str) -> list[dict[str, Any]]:
    items = (await operator.get("/internal/reports", limit=200, **which))["items"]
    return [item for item in items if item["session_id"] == session_id]


async def test_each_party_reports_a_session_once_while_it_runs_and_after_its_end(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    made = await reporting(customer, session_id, "harassment", message="Kasar sekali.\nTolong!")
    assert (made["session_id"], made["reason"]) == (session_id, "harassment")
    await refused(reporting(customer, session_id), 409, "ALREADY_REPORTED")
    await end_now(world, customer, session_id)
    await reporting(mitra, session_id, "no_answer")
    newest, oldest = await listed(await world.operator(), session_id)
    assert set(oldest) == FIELDS
    assert [newest["reporter"], oldest["reporter"]] == ["mitra", "customer"]
    assert (oldest["customer"]["id"], oldest["mitra"]["id"]) == (customer.user["id"], mitra.user["id"])
    assert (oldest["id"], oldest["message"], oldest["status"], oldest["resolution"], oldest["note"]) == (
        made["id"], "Kasar sekali.\nTolong!", "open", None, None,
    )  # fmt: skip


async def test_parallel_reports_of_a_party_are_stored_once(world: World) -> None:
    customer, mitra = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    got = await at_once(*[reporting(party, row["last_session_id"]) for party in (customer, mitra) for _ in range(4)])
    assert sorted(got) == ["ALREADY_REPORTED"] * 6 + ["ok"] * 2


@pytest.mark.parametrize("reason", list(Reason))
async def test_every_reason_is_taken(world: World, reason: str) -> None:
    customer, mitra = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    assert (await reporting(mitra, row["last_session_id"], reason))["reason"] == reason


async def test_report_of_strangers_without_a_mitra_or_with_bad_fields_is_refused(world: World) -> None:
    customer, mitra = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    session_id = row["last_session_id"]
    for stranger in (await world.customer(), await world.mitra()):
        await refused(reporting(stranger, session_id), 404, "NOT_FOUND")
    await refused(reporting(customer, ids.new_id()), 404, "NOT_FOUND")
    for bad in ({"reason": "boring"}, {"message": "x" * 1_001}, {"message": "\u200b"}, {"more": 1}):
        await refused(reporting(customer, session_id, **{"reason": "rude", **bad}), 422, "VALIDATION_ERROR")
    await mitra.post("/api/mitra/status/offline")
    search = await world.paid(customer, accept_wait=True)
    await refused(reporting(customer, search["session_id"]), 404, "NOT_FOUND")


async def test_report_is_resolved_once_with_an_audit_row(world: World) -> None:
    customer, _ = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    await reporting(customer, row["last_session_id"], "scam")
    root = await world.operator()
    (report,) = await listed(root, row["last_session_id"], status="open", reason="scam")
    await refused(resolving(root, report, resolution="shouted"), 422, "VALIDATION_ERROR")
    outcomes = await at_once(*[resolving(root, report, resolution="warned", note="Mitra ditelepon.") for _ in range(4)])
    assert sorted(outcomes) == ["REPORT_RESOLVED"] * 3 + ["ok"]
    assert await listed(root, row["last_session_id"], status="open") == []
    (resolved,) = await listed(root, row["last_session_id"], status="resolved")
    assert (resolved["status"], resolved["resolution"], resolved["note"]) == ("resolved", "warned", "Mitra ditelepon.")
    assert resolved["resolved_by"]["display_name"]
    (written,) = [one for one in await audit_rows(world, report["id"]) if one["action"] == "report.resolved"]
    assert written["after"] == {"resolution": "warned"}
    await refused(resolving(root, {"id": ids.new_id()}, resolution="dismissed"), 404, "NOT_FOUND")
    for which in ({"status": "closed"}, {"reason": "boring"}):
        await refused(root.get("/internal/reports", **which), 422, "VALIDATION_ERROR")


async def test_messages_need_customers_pii_and_reports_their_area(world: World) -> None:
    customer, mitra = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    await reporting(mitra, row["last_session_id"], message="Minta nomor rekening")
    reader = (await an_operator(world, {"reports": "read"})).client
    (hidden,) = await listed(reader, row["last_session_id"])
    assert hidden["message"] == "3 words, hidden"
    await refused(resolving(reader, hidden, resolution="dismissed"), 403, "FORBIDDEN")
    writer = (await an_operator(world, {"reports": "write"})).client
    assert (await resolving(writer, hidden, resolution="dismissed"))["message"] == "3 words, hidden"
    open_book = (await an_operator(world, {"reports": "read", "customers.pii": "read"})).client
    (shown,) = await listed(open_book, row["last_session_id"])
    assert shown["message"] == "Minta nomor rekening"
    read = await world.stack.sql(
        "SELECT after FROM operator_audit_log WHERE action = 'report.read' AND after::text LIKE '%' || $1 || '%'",
        shown["id"],
    )
    assert len(read) == 1
    other = (await an_operator(world, {"sessions": "write", "customers": "write"})).client
    await refused(other.get("/internal/reports"), 403, "FORBIDDEN")


async def test_one_report_is_read_with_an_audit_row_or_hidden(world: World) -> None:
    customer, _ = await friends(world)
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    made = await reporting(customer, row["last_session_id"], message="Kasar sekali.")
    path = f"/internal/reports/{made['id']}"
    readers = {
        "2 words, hidden": await an_operator(world, {"reports": "read"}),
        "Kasar sekali.": await an_operator(world, {"reports": "read", "customers.pii": "read"}),
    }
    for message, reader in readers.items():
        assert (await reader.client.get(path))["message"] == message
    assert [one["operator_id"] for one in await audits(world, made["id"])] == [readers["Kasar sekali."].id]
    await refused((await world.operator()).get(f"/internal/reports/{ids.new_id()}"), 404, "NOT_FOUND")
    clerk = await an_operator(world, {"sessions": "read"})
    await refused(clerk.client.get(path), 403, "FORBIDDEN")
