"""A person's case: sums, a corrected name, a copy of the data and an erasure, by operators."""

import json
from typing import Any

import pytest

from core.base import ids
from tests.http.operators.second_factor import an_enrolled_operator
from tests.http.operators.steps import an_operator, audits, found, unique
from tests.http.pairing.steps import end_now, friends
from tests.stack import World, at_once, new_id, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

FAILURES = "/internal/failed-pairings"


def path_of(user: Device, more: str = "") -> str:
    kind = "customers" if "is_anonymous" in user.user else "mitras"
    return f"/internal/{kind}/{user.user['id']}{more}"


async def failing(world: World, customer: Device) -> dict[str, Any]:
    """Let a customer pay and cancel; return the failed pairing."""
    payment = await world.paid(customer)
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    rows = (await (await world.operator()).get(FAILURES, q=payment["payment_request_id"]))["items"]
    return rows[0]


# -- sums and lists


async def test_sums_count_what_was_paid_earned_and_refunded(world: World) -> None:
    customer, mitra, root = await world.customer(), await world.mitra(), await world.operator()
    assert set((await root.get(path_of(customer, "/sums"))).values()) == {0}
    await world.request(customer)  # never paid
    failure = await failing(world, customer)
    await root.call("PATCH", f"{FAILURES}/{failure['id']}", {"operator_action": "refunded"})
    session_id = await world.session(customer, mitra)
    request_id = (await root.get(f"/internal/sessions/{session_id}"))["payment_request_id"]
    by_hand = {"amount": 2_000, "reason": "late", "by_hand": True, "reference": new_id()}
    await root.post(f"/internal/payment-requests/{request_id}/refund", by_hand)
    sums = await root.get(path_of(customer, "/sums"))
    assert sums == {"paid": 24_000, "earned": 12_000, "refunded": 14_000, "chats": 1}
    assert await root.get(path_of(mitra, "/sums")) == {"paid": 12_000, "earned": 12_000, "refunded": 2_000, "chats": 1}


async def test_sums_of_unknown_people_are_404_and_need_the_area(world: World) -> None:
    customer, root = await world.customer(), await world.operator()
    for kind in ("customers", "mitras"):
        await refused(root.get(f"/internal/{kind}/{ids.new_id()}/sums"), 404, "NOT_FOUND")
    plain = (await an_operator(world, {"customers": "write", "mitras": "write"})).client
    await refused(plain.get(path_of(customer, "/sums")), 403, "FORBIDDEN")
    payments = (await an_operator(world, {"payments": "read"})).client
    assert (await payments.get(path_of(customer, "/sums")))["chats"] == 0


async def test_failures_and_reports_of_a_person_are_found(world: World) -> None:
    customer, mitra = await friends(world)
    root = await world.operator()
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    report = await customer.post(f"/api/shared/chat/sessions/{row['last_session_id']}/report", {"reason": "rude"})
    stranger = await world.customer()
    for user, expected in ((customer, [report["id"]]), (mitra, [report["id"]]), (stranger, [])):
        assert await found(root, "/internal/reports", user_id=user.user["id"]) == expected
    await refused(root.get("/internal/reports", user_id="Ayu"), 422, "VALIDATION_ERROR")
    payment = await world.paid(customer, targeted_mitra_id=mitra.user["id"])
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    of_mitra = (await root.get(FAILURES, q=mitra.user["id"]))["items"]
    assert [one["payment_request_id"] for one in of_mitra] == [payment["payment_request_id"]]


# -- a corrected name


async def test_corrected_name_reaches_the_mitra_and_is_not_in_the_audit_log(world: World) -> None:
    customer, mitra, root = await world.customer("Dwei"), await world.mitra(), await world.operator()
    session_id = await world.session(customer, mitra)
    socket = await mitra.open("chat")
    seen = await root.call("PATCH", path_of(customer), {"display_name": " Dewi "})
    assert seen["display_name"] == "Dewi"
    event = await socket.wait("peer_renamed")
    assert (event["session_id"], event["display_name"]) == (session_id, "Dewi")
    assert (await customer.get("/api/client/auth/me"))["display_name"] == "Dewi"
    row = (await audits(world, customer.user["id"]))[-1]
    assert (row["action"], row["before"], row["after"]) == ("customer.changed", None, {"fields": ["display_name"]})


async def test_name_is_refused_without_rights_for_strangers_and_if_it_is_invalid(world: World) -> None:
    customer, root = await world.customer("Dewi"), await world.operator()
    reader = (await an_operator(world, {"customers": "read", "mitras": "write"})).client
    await refused(reader.call("PATCH", path_of(customer), {"display_name": "Sari"}), 403, "FORBIDDEN")
    body = {"display_name": "Sari"}
    await refused(root.call("PATCH", f"/internal/customers/{ids.new_id()}", body), 404, "NOT_FOUND")
    for bad in ("", "\u200b", "a\nb", "x" * 101):
        await refused(root.call("PATCH", path_of(customer), {"display_name": bad}), 422, "VALIDATION_ERROR")
    assert (await customer.get("/api/client/auth/me"))["display_name"] == "Dewi"


# -- export and erasure


async def test_export_has_everything_and_leaves_one_audit_row(world: World) -> None:
    customer, mitra, root = await world.customer("Dewi"), await world.mitra(), await world.operator()
    session_id = await world.session(customer, mitra)
    body = {"client_message_id": new_id(), "content": "halo"}
    await customer.post(f"/api/shared/chat/sessions/{session_id}/messages", body)
    copy = await root.post(path_of(customer, "/export"))
    assert [one["display_name"] for one in copy["profiles"]] == ["Dewi"]
    assert [one["content"] for one in copy["sessions"][0]["messages"]] == ["halo"]
    rows = await audits(world, customer.user["id"])
    assert [(row["action"], row["operator_id"]) for row in rows] == [("customer.exported", root.user["id"])]
    await refused(root.post(f"/internal/customers/{ids.new_id()}/export"), 404, "NOT_FOUND")


async def test_erasure_begins_at_once_signs_out_and_is_done_once(world: World) -> None:
    customer, root = await world.customer("Dewi"), await world.operator()
    await failing(world, customer)
    customer_id, sums = customer.user["id"], path_of(customer, "/sums")
    erase, person = path_of(customer, "/erase"), path_of(customer)
    assert await at_once(*[root.post(erase) for _ in range(4)]) == ["ok"] * 4
    seen = await root.post(erase)
    assert (seen["display_name"], seen["phone"], seen["id"]) == (None, None, customer_id)
    assert seen["erased_at"] is not None
    await refused(customer.get("/api/client/auth/me"), 401, "REFRESH_INVALID")
    rows = await audits(world, customer_id)
    assert [(row["action"], row["operator_id"]) for row in rows] == [("customer.erased", root.user["id"])]
    assert (await root.get(sums))["paid"] == 12_000  # records of money stay
    await refused(root.call("PATCH", person, {"display_name": "Sari"}), 404, "NOT_FOUND")
    await refused(root.post(f"/internal/customers/{ids.new_id()}/erase"), 404, "NOT_FOUND")


async def test_erasure_waits_for_the_end_of_a_chat(world: World) -> None:
    customer, mitra, root = await world.customer(), await world.mitra(), await world.operator()
    session_id = await world.session(customer, mitra)
    await refused(root.post(path_of(customer, "/erase")), 409, "SESSION_IN_PROGRESS")
    assert (await root.get(path_of(customer)))["erased_at"] is None
    await end_now(world, customer, session_id)
    for party in (customer, mitra):
        await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "dadah"})
    assert (await root.post(path_of(customer, "/erase")))["erased_at"] is not None


async def test_export_and_erasure_need_their_rights_and_a_fresh_code(world: World) -> None:
    customer = await world.customer()
    calls = [path_of(customer, "/export"), path_of(customer, "/erase")]
    reader = (await an_operator(world, {"customers": "read", "customers.pii": "write"})).client
    for call in calls:
        await refused(reader.post(call), 403, "FORBIDDEN")
    masked = (await an_operator(world, {"customers": "write"})).client
    await refused(masked.post(calls[0]), 403, "FORBIDDEN")  # the copy would show what is masked
    me = await an_enrolled_operator(world, {"customers": "write", "customers.pii": "read"})
    for call in calls:
        await refused(me.client.post(call), 403, "TOTP_REQUIRED")
    assert await audits(world, customer.user["id"]) == []
    await me.step_up()
    for call in calls:
        await me.client.post(call)
    rows = await audits(world, customer.user["id"])
    assert [row["action"] for row in rows] == ["customer.exported", "customer.erased"]


# -- export and erasure of mitras


async def a_leaver(world: World) -> Device:
    """Create a mitra and deactivate them."""
    mitra = await world.mitra()
    await (await world.operator()).call("PATCH", path_of(mitra), {"is_active": False})
    return mitra


async def test_export_of_a_mitra_has_what_they_wrote_and_nothing_about_their_customers(world: World) -> None:
    name, root = unique("Dewi"), await world.operator()
    customer, mitra = await world.customer(name), await world.mitra("Ayu")
    session_id = await world.session(customer, mitra, topics=["kerja"])
    chat = f"/api/shared/chat/sessions/{session_id}"
    for client, content in ((customer, "rahasia"), (mitra, "selamat pagi"), (mitra, "apa kabar")):
        await client.post(f"{chat}/messages", {"client_message_id": new_id(), "content": content})
    for client, message in ((customer, "tidak sopan"), (mitra, "memaki")):
        await client.post(f"{chat}/report", {"reason": "rude", "message": message})
        await client.post(f"{chat}/block")
    await end_now(world, customer, session_id)
    for client, message in ((customer, "sampai jumpa"), (mitra, "dadah")):
        await client.post(f"{chat}/closure", {"message": message})
    copy = await root.post(path_of(mitra, "/export"))
    assert [(one["display_name"], one["phone"]) for one in copy["profiles"]] == [("Ayu", mitra.user["phone"])]
    assert len(copy["devices"]) == 1
    assert {one["phone"] for one in copy["codes"]} == {mitra.user["phone"]}
    assert [one["status"] for one in copy["presence"]][:1] == ["online"]
    assert [(one["session_id"], one["response"]) for one in copy["invitations"]] == [(session_id, "ACCEPTED")]
    (session,) = copy["sessions"]
    assert [one["content"] for one in session["messages"]] == ["selamat pagi", "apa kabar"]
    assert [one["message"] for one in session["goodbyes"]] == ["dadah"]
    assert [one["message"] for one in copy["reports"]] == ["memaki"]
    assert [one["session_id"] for one in copy["blocks"]] == [session_id]
    text = json.dumps(copy)
    theirs = (name, customer.user["id"], "rahasia", "kerja", "tidak sopan", "sampai jumpa")
    assert [word for word in theirs if word in text] == []
    rows = await audits(world, mitra.user["id"])
    assert [(row["action"], row["operator_id"]) for row in rows][1:] == [("mitra.exported", root.user["id"])]
    await refused(root.post(f"/internal/mitras/{ids.new_id()}/export"), 404, "NOT_FOUND")


async def test_erasure_of_a_mitra_is_done_once_and_refused_while_they_are_active(world: World) -> None:
    mitra, root = await world.mitra("Cempaka"), await world.operator()
    await refused(root.post(path_of(mitra, "/erase")), 409, "MITRA_STILL_ACTIVE")
    assert (await root.get(path_of(mitra)))["erased_at"] is None
    gone = await a_leaver(world)
    erase = path_of(gone, "/erase")
    assert await at_once(*[root.post(erase) for _ in range(4)]) == ["ok"] * 4
    seen = await root.post(erase)
    assert seen == await root.get(path_of(gone))
    assert seen["erased_at"] is not None
    assert gone.user["phone"] not in json.dumps(seen)
    assert gone.user["display_name"] not in json.dumps(seen)
    rows = await audits(world, gone.user["id"])
    assert [(row["action"], row["operator_id"]) for row in rows][2:] == [("mitra.erased", root.user["id"])]
    await refused(root.call("PATCH", path_of(gone), {"is_active": True}), 404, "NOT_FOUND")
    await refused(root.post(f"/internal/mitras/{ids.new_id()}/erase"), 404, "NOT_FOUND")


async def test_mitra_who_is_activated_while_they_are_erased_is_either_active_or_erased(world: World) -> None:
    root = await world.operator()
    for _ in range(4):
        mitra = await a_leaver(world)
        path = path_of(mitra)
        outcomes = await at_once(root.post(f"{path}/erase"), root.call("PATCH", path, {"is_active": True}))
        seen = await root.get(path)
        expected = ["MITRA_STILL_ACTIVE", "ok"] if seen["is_active"] else ["ok", "NOT_FOUND"]
        assert (outcomes, seen["erased_at"] is None) == (expected, seen["is_active"])


async def test_export_and_erasure_of_a_mitra_need_their_rights_and_a_fresh_code(world: World) -> None:
    mitra = await a_leaver(world)
    calls = [path_of(mitra, "/export"), path_of(mitra, "/erase")]
    before = await audits(world, mitra.user["id"])
    reader = (await an_operator(world, {"mitras": "read", "customers.pii": "write", "customers": "write"})).client
    for call in calls:
        await refused(reader.post(call), 403, "FORBIDDEN")
    masked = (await an_operator(world, {"mitras": "write"})).client
    await refused(masked.post(calls[0]), 403, "FORBIDDEN")  # the copy has texts of chats
    me = await an_enrolled_operator(world, {"mitras": "write", "customers.pii": "read"})
    for call in calls:
        await refused(me.client.post(call), 403, "TOTP_REQUIRED")
    assert await audits(world, mitra.user["id"]) == before
    await me.step_up()
    for call in calls:
        await me.client.post(call)
    rows = (await audits(world, mitra.user["id"]))[len(before) :]
    assert [row["action"] for row in rows] == ["mitra.exported", "mitra.erased"]
