"""Routes of the control center: settings, mitras, customers, failed pairings and the ledger audit.

Every write leaves an audit row (docs/product.md#audit-log).
"""

import asyncio
import json
import secrets
from typing import Any

import pytest

from tests.stack import EMAIL, World, new_id, refused, within
from tests.verdicts import check_books
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio

CONFIG_FIELDS = {"key", "value", "default", "unit", "min", "max", "used", "updated_at", "updated_by"}
MITRA_FIELDS = {"id", "phone", "display_name", "is_active"}
FAILURE_FIELDS = {
    "id", "payment_request_id", "customer", "targeted_mitra_id", "cause_tag", "amount", "operator_action",
    "actioned_by", "actioned_at", "superseded_at", "created_at", "note", "age_seconds", "due_at", "payment_channel",
    "refundability", "refundable", "refundable_until", "may_refund", "refund", "asked_amount", "sub_cause", "twin_id",
    "why", "why_in_indonesian", "assigned_to", "snoozed_until",
}  # fmt: skip


async def audit_rows(world: World, object_id: str) -> list[dict[str, Any]]:
    """Return the audit rows about an object, oldest first."""
    rows = await world.stack.sql(
        """SELECT action, operator_id::text, before, after FROM operator_audit_log WHERE object_id = $1
           ORDER BY created_at, id""",
        object_id,
    )
    return [{**row, "before": json.loads(row["before"] or "null"), "after": json.loads(row["after"])} for row in rows]


def a_number() -> str:
    """Return a new phone number."""
    return f"+62815{secrets.randbelow(10**8):08d}"


async def a_mitra(operator: Device, **more: Any) -> dict[str, Any]:
    """Create a mitra as an operator."""
    body = {"phone": a_number(), "display_name": "Ayu", "is_active": True, **more}
    return await operator.post("/internal/mitras", body)


async def a_failure(world: World) -> dict[str, Any]:
    """Create an open failed pairing: a customer pays and cancels."""
    customer = await world.customer()
    payment = await world.paid(customer)
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    rows = (await (await world.operator()).get("/internal/failed-pairings", limit=200))["items"]
    (row,) = [row for row in rows if row["payment_request_id"] == payment["payment_request_id"]]
    return row


# -- configuration


async def test_config_rows_of_the_list_are_those_of_the_single_reads(world: World) -> None:
    operator = await world.operator()
    rows = {row["key"]: row for row in (await operator.get("/internal/config"))["items"]}
    assert all(set(row) >= CONFIG_FIELDS for row in rows.values())
    assert await operator.get("/internal/config/searching_timeout_minutes") == rows["searching_timeout_minutes"]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_config_value_set_is_read_back_and_audited(world: World, method: str) -> None:
    operator = await world.operator()
    path = "/internal/config/extension_timeout_seconds"
    try:
        for value in (1, 3600, 45):
            row = await operator.call(method, path, {"value": value})
            assert (row["value"], row["default"], row["updated_by"]["id"]) == (value, 60, operator.user["id"])
            assert await operator.get(path) == row
            last = (await audit_rows(world, "extension_timeout_seconds"))[-1]
            assert (last["operator_id"], last["after"]) == (operator.user["id"], {"value": value})
        assert last["before"] == {"value": 3600}
    finally:
        await operator.call("PUT", path, {"value": 60})


@pytest.mark.parametrize(
    ("key", "values", "rule"),
    [
        ("pairing_blast_timeout_seconds", [10**400], "1 to 3,600 seconds"),
        ("extension_default_action_on_timeout", ["maybe", "", None, 5, [], {}], "auto_approve, reject"),
        ("support_handles", [None, [], {}, {"primary": {"label": "x", "deeplink": "https://x"}}], "primary"),
    ],
)
async def test_config_value_that_breaks_its_rule_is_422_and_names_the_rule(
    world: World, key: str, values: list[Any], rule: str
) -> None:
    operator = await world.operator()
    before = (await operator.get(f"/internal/config/{key}"), len(await audit_rows(world, key)))
    for value in values:
        for method in ("PUT", "PATCH"):
            call = operator.call(method, f"/internal/config/{key}", {"value": value})
            error = await refused(call, 422, "VALIDATION_ERROR")
            assert rule in error["details"]["fields"][0]["message"]
    assert (await operator.get(f"/internal/config/{key}"), len(await audit_rows(world, key))) == before


async def test_support_handles_must_each_have_a_label_and_a_link(world: World) -> None:
    operator = await world.operator()
    path = "/internal/config/support_handles"
    before = (await operator.get(path))["value"]
    handles = {name: {"label": "Bantuan é", "deeplink": f"https://wa.me/{name}"} for name in ("primary", "secondary")}
    try:
        assert (await operator.call("PUT", path, {"value": handles}))["value"] == handles
        bad = {**handles, "primary": {"label": "x", "deeplink": "no link"}}
        await refused(operator.call("PUT", path, {"value": bad}), 422, "VALIDATION_ERROR")
        nul = {**handles, "primary": {"label": "\0", "deeplink": "https://x"}}
        await refused(operator.call("PUT", path, {"value": nul}), 422, "VALIDATION_ERROR")
    finally:
        await operator.call("PUT", path, {"value": before})


async def test_unknown_config_key_is_404(world: World) -> None:
    operator = await world.operator()
    for key in ("nothing", "MAX_CUSTOMERS_PER_MITRA", "é", "a" * 2000):
        await refused(operator.get(f"/internal/config/{key}"), 404, "NOT_FOUND")
        for method in ("PUT", "PATCH"):
            await refused(operator.call(method, f"/internal/config/{key}", {"value": 1}), 404, "NOT_FOUND")


async def test_config_body_with_other_fields_than_value_is_422(world: World) -> None:
    operator = await world.operator()
    for body in ({}, {"value": 60, "more": 1}, {"Value": 60}):
        call = operator.call("PUT", "/internal/config/extension_timeout_seconds", body)
        await refused(call, 422, "VALIDATION_ERROR")


async def test_mitra_ping_config_can_be_changed_in_parts(world: World) -> None:
    operator = await world.operator()
    path = "/internal/config/mitra-ping"
    before = await operator.get(path)
    assert set(before) == {"require_ping", "stale_after_seconds", "heartbeat_cadence_seconds"}
    assert before["heartbeat_cadence_seconds"] == 30
    try:
        assert await operator.call("PATCH", path, {"stale_after_seconds": 30}) == {**before, "stale_after_seconds": 30}
        changed = await operator.call("PATCH", path, {"stale_after_seconds": 60.5})
        assert changed == {**before, "stale_after_seconds": 60.5} == await operator.get(path)
        row = await operator.get("/internal/config/mitra_stale_after_seconds")
        assert (row["value"], row["fraction"]) == (60.5, True)
        assert (await audit_rows(world, "mitra_stale_after_seconds"))[-1]["after"] == {"value": 60.5}
        changed = await operator.call("PATCH", path, {"require_ping": False, "stale_after_seconds": 90})
        assert (changed["require_ping"], changed["stale_after_seconds"]) == (False, 90)
        assert await operator.call("PATCH", path, {}) == changed
        assert (await operator.get("/internal/config/mitra_stale_after_seconds"))["value"] == 90
        assert (await audit_rows(world, "require_mitra_ping"))[-1]["after"] == {"value": False}
    finally:
        restored = {name: before[name] for name in ("require_ping", "stale_after_seconds")}
        assert await operator.call("PATCH", path, restored) == before


async def test_stale_threshold_below_the_cadence_is_422_and_changes_nothing(world: World) -> None:
    operator = await world.operator()
    path = "/internal/config/mitra-ping"
    before = await operator.get(path)
    for threshold in (29, 29.9, 0, -1, 3601, 3600.1, "45", True, None, 10**400):
        call = operator.call("PATCH", path, {"require_ping": False, "stale_after_seconds": threshold})
        error = await refused(call, 422, "VALIDATION_ERROR")
        assert "30" in json.dumps(error)
        assert error["details"]["fields"][0]["field"] == "stale_after_seconds"
    for flag in (None, 0, "no"):
        await refused(operator.call("PATCH", path, {"require_ping": flag}), 422, "VALIDATION_ERROR")
    for body in ({"heartbeat_cadence_seconds": 5}, {"other": 1}):
        await refused(operator.call("PATCH", path, body), 422, "VALIDATION_ERROR")
    assert await operator.get(path) == before


# -- mitras


async def test_mitra_created_and_changed_by_operator_is_audited(world: World) -> None:
    operator = await world.operator()
    number, other = a_number(), a_number()
    made = await operator.post(
        "/internal/mitras", {"phone": "0" + number[3:], "display_name": "  Ayu  ", "is_active": True}
    )
    assert set(made) >= MITRA_FIELDS
    assert (made["phone"], made["display_name"], made["is_active"], made["is_online"]) == (number, "Ayu", True, False)
    path = f"/internal/mitras/{made['id']}"
    assert await operator.get(path) == made
    changed = await operator.call("PATCH", path, {"display_name": "Bima", "phone": other})
    assert changed == {**made, "display_name": "Bima", "phone": other}
    assert await operator.get(path) == changed
    rows = await audit_rows(world, made["id"])
    assert [row["action"] for row in rows] == ["mitra.created", "mitra.changed"]
    assert [row["operator_id"] for row in rows] == [operator.user["id"]] * 2
    assert (rows[0]["before"], rows[1]["before"]["display_name"], rows[1]["after"]["display_name"]) == (
        None,
        "Ayu",
        "Bima",
    )


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("phone", {"phone": "12"}),
        ("phone", {"phone": "0812OOO7698"}),
        ("phone", {"phone": "081204O36871"}),
        ("phone", {"phone": "hp: 081234567890"}),
        ("phone", {"phone": "\0" * 10}),
        ("phone", {"phone": None}),
        ("phone", {"phone": 5}),
        ("display_name", {"display_name": ""}),
        ("display_name", {"display_name": "   "}),
        ("display_name", {"display_name": "x" * 101}),
        ("display_name", {"display_name": None}),
        ("is_active", {"is_active": "yes"}),
        ("is_active", {"is_active": None}),
        ("role", {"role": "mitra"}),
    ],
)
async def test_invalid_mitra_field_is_named(world: World, field: str, change: dict[str, Any]) -> None:
    operator = await world.operator()
    made = await a_mitra(operator)
    body = {"phone": a_number(), "display_name": "Ayu", **change}
    for call in (
        operator.post("/internal/mitras", body),
        operator.call("PATCH", f"/internal/mitras/{made['id']}", change),
    ):
        error = await refused(call, 422, "VALIDATION_ERROR")
        assert [item["field"] for item in error["details"]["fields"]] == [field]
    assert await operator.get(f"/internal/mitras/{made['id']}") == made


async def test_concurrent_mitras_with_one_phone_are_created_once(world: World) -> None:
    operator = await world.operator()
    number = a_number()

    async def add() -> int:
        try:
            await operator.post("/internal/mitras", {"phone": number, "display_name": "Ayu"})
        except Refused as no:
            return no.status
        return 201

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(add()) for _ in range(10)]
    assert sorted(task.result() for task in tasks) == [201] + [409] * 9
    other = await a_mitra(operator)
    await refused(operator.call("PATCH", f"/internal/mitras/{other['id']}", {"phone": number}), 409, "PHONE_TAKEN")


async def test_mitra_list_is_searched_filtered_and_paged_newest_first(world: World) -> None:
    operator = await world.operator()
    name = f"Zul_{secrets.token_hex(4)}%"
    made = [await a_mitra(operator, display_name=f"{name} {n}", is_active=n != 1) for n in range(3)]
    ids = [row["id"] for row in reversed(made)]

    async def found(**query: Any) -> list[str]:
        return [row["id"] for row in (await operator.get("/internal/mitras", **query))["items"]]

    assert await found(q=name) == await found(q=name.lower()) == ids
    for number in (
        made[0]["phone"],
        f"\u202a0{made[0]['phone'][3:6]}-{made[0]['phone'][6:]}\u202c",
        f"00{made[0]['phone'][1:]}",
    ):
        assert await found(q=number) == [made[0]["id"]]
    assert await found(q=name, is_active="true") == [ids[0], ids[2]]
    assert await found(q=name, is_active="false") == [ids[1]]
    assert await found(q=name, is_online="true") == []
    assert await found(q=name.replace("_", "x")) == []  # % and _ have no special meaning
    page = await operator.get("/internal/mitras", q=name, limit=2)
    assert [row["id"] for row in page["items"]] == ids[:2]
    last = await operator.get("/internal/mitras", q=name, limit=2, cursor=page["next_cursor"])
    assert ([row["id"] for row in last["items"]], last["next_cursor"]) == (ids[2:], None)


async def test_force_offline_is_visible_to_both_and_audited(world: World) -> None:
    operator, mitra = await world.operator(), await world.mitra()
    path = f"/internal/mitras/{mitra.user['id']}"
    assert (await operator.get(path))["is_online"] is True
    for _ in range(2):
        assert (await operator.post(f"{path}/force-offline"))["is_online"] is False
    assert (await mitra.get("/api/mitra/status"))["is_online"] is False
    last = (await audit_rows(world, mitra.user["id"]))[-1]
    assert (last["action"], last["after"]) == ("mitra.forced_offline", {"is_online": False})
    await mitra.post("/api/mitra/status/online")
    assert (await operator.get(path))["is_online"] is True


async def test_deactivated_mitra_is_offline_and_loses_all_tokens(world: World) -> None:
    operator, mitra = await world.operator(), await world.mitra()
    refresh_token, mitra.refresh_token = mitra.refresh_token, None
    changed = await operator.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"is_active": False})
    assert (changed["is_active"], changed["is_online"]) == (False, False)

    async def status() -> int:
        return (await mitra._once("GET", "/api/mitra/status", None))[0]

    await world.until(status, lambda seen: seen == 401, timeout=within(1))
    device = world.client()
    body = {"refresh_token": refresh_token}
    await refused(device.post("/api/shared/auth/refresh", body), 401, "REFRESH_INVALID")


async def test_deactivated_mitras_open_invitations_are_closed(world: World) -> None:
    operator, mitra, customer = await world.operator(), await world.mitra(), await world.customer()
    payment = await world.paid(customer)
    await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: len(seen["items"]) == 1)
    await operator.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"is_active": False})
    rows = await world.stack.sql(
        "SELECT response FROM chat_request_notifications WHERE session_id = $1::text::uuid", payment["session_id"]
    )
    assert [row["response"] for row in rows] == ["IGNORED"]


async def test_unknown_ids_are_404_for_operators(world: World) -> None:
    operator = await world.operator()
    for one in (new_id(), "nonsense", "é", "0"):
        for method, path, body in (
            ("GET", f"/internal/mitras/{one}", None),
            ("PATCH", f"/internal/mitras/{one}", {"display_name": "x"}),
            ("POST", f"/internal/mitras/{one}/force-offline", None),
            ("GET", f"/internal/customers/{one}", None),
            ("PATCH", f"/internal/failed-pairings/{one}", {"operator_action": "refunded"}),
        ):
            await refused(operator.call(method, path, body), 404, "NOT_FOUND")


async def test_operator_reads_a_customer_by_id(world: World) -> None:
    operator, customer = await world.operator(), await world.customer("Dewi")
    assert await operator.get(f"/internal/customers/{customer.user['id']}") == {
        **customer.user,
        "block": None,
        "erased_at": None,
    }


# -- failed pairings


async def test_failed_pairing_has_the_documented_fields_and_is_found_by_cause(world: World) -> None:
    operator = await world.operator()
    failure = await a_failure(world)
    assert set(failure) == FAILURE_FIELDS
    assert (failure["cause_tag"], failure["amount"], failure["operator_action"]) == ("customer_cancelled", 12000, None)
    assert failure["customer"]["display_name"] == "Dewi"

    async def listed(**query: Any) -> bool:
        rows = (await operator.get("/internal/failed-pairings", limit=200, **query))["items"]
        return failure["id"] in [row["id"] for row in rows]

    assert await listed(cause_tag="customer_cancelled")
    assert not await listed(cause_tag="no_mitra_available")
    assert await listed(operator_action="none")
    assert not await listed(operator_action="refunded")
    assert not await listed(superseded="true")
    for query in ({"cause_tag": "odd"}, {"operator_action": "odd"}, {"limit": 0}, {"limit": 201}, {"cursor": "odd"}):
        await refused(operator.get("/internal/failed-pairings", **query), 422, "VALIDATION_ERROR")


async def test_twenty_concurrent_actions_on_a_failed_pairing_apply_one(world: World) -> None:
    operator = await world.operator()
    failure = await a_failure(world)
    path = f"/internal/failed-pairings/{failure['id']}"
    wishes = ["refunded", "credited", "no_action", "refunded"] * 5
    refusals: list[tuple[int, Any]] = []

    async def act(wish: str) -> dict[str, Any] | None:
        try:
            return await operator.call("PATCH", path, {"operator_action": wish})
        except Refused as no:
            refusals.append((no.status, no.code))
            return None

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(act(wish)) for wish in wishes]
    (done,) = [task.result() for task in tasks if task.result() is not None]
    assert refusals == [(409, "ALREADY_ACTIONED")] * 19
    assert (set(done), done["actioned_by"]["id"]) == (FAILURE_FIELDS, operator.user["id"])
    assert done["actioned_at"] is not None
    (row,) = await audit_rows(world, failure["id"])
    assert (row["action"], row["after"]["operator_action"]) == ("failed_pairing.actioned", done["operator_action"])
    same = (await operator.get("/internal/failed-pairings", operator_action=done["operator_action"]))["items"][0]
    assert same == done


async def test_unknown_action_is_422_and_leaves_the_failed_pairing_open(world: World) -> None:
    operator = await world.operator()
    failure = await a_failure(world)
    path = f"/internal/failed-pairings/{failure['id']}"
    for body in ({"operator_action": "none"}, {"operator_action": None}, {}, {"operator_action": ["refunded"]}):
        error = await refused(operator.call("PATCH", path, body), 422, "VALIDATION_ERROR")
        assert [item["field"] for item in error["details"]["fields"]] == ["operator_action"]
    done = await operator.call("PATCH", path, {"operator_action": "refunded"})
    assert done["operator_action"] == "refunded"


# -- ledger audit


async def test_ledger_audit_counts_sessions_and_payments(world: World) -> None:
    operator = await world.operator()
    before = await operator.get("/internal/ledger/audit")
    assert before.pop("replica_lag_seconds") is None  # there is no replica
    assert set(before) == {"sessions", "payments", "violations", "accepted"}
    customer = await world.customer()
    await world.paid(customer)
    after = await operator.get("/internal/ledger/audit")
    assert (after["sessions"], after["payments"]) == (before["sessions"] + 1, before["payments"] + 1)
    check_books(after)


async def test_ledger_audit_reports_a_row_changed_by_hand(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    session_id = (await world.paid(customer))["session_id"]
    write = "UPDATE chat_sessions SET last_seq = $2 WHERE id = $1::text::uuid"
    await world.stack.sql(write, session_id, 3)
    try:
        (violation,) = (await operator.get("/internal/ledger/audit"))["violations"]
        accept = ("audit", "accept", violation["rule"], violation["id"], "--reason", "by hand", "--operator", EMAIL)
        assert world.stack.command(*accept).stdout == "1 violations accepted.\n"
        books = await operator.get("/internal/ledger/audit")
        (accepted,) = books["accepted"]
        assert books["violations"] == []
        assert accepted == {**violation, "reason": "by hand", "operator": EMAIL, "accepted_at": accepted["accepted_at"]}
        rows = (await operator.get("/internal/audit-log", action="violations.accepted"))["items"]
        assert (rows[0]["object_id"], rows[0]["after"]["violations"]) == (violation["rule"], 1)
    finally:
        await world.stack.sql("DELETE FROM accepted_violations")
        await world.stack.sql(write, session_id, 0)
    assert (set(violation), violation["id"]) == ({"rule", "id", "detail"}, session_id)
    check_books(await operator.get("/internal/ledger/audit"))


# -- access


async def test_operator_has_only_the_permissions_of_the_role(world: World) -> None:
    """Check permissions with a role that is inserted directly into the database."""
    role, email = f"reader-{secrets.token_hex(4)}", f"reader-{secrets.token_hex(4)}@example.test"
    await world.stack.sql(
        "INSERT INTO roles (id, name, permissions, created_at) VALUES ($1::text::uuid, $2, $3::text::jsonb, now())",
        new_id(), role, json.dumps({"mitras": "read", "config": "write"}),
    )  # fmt: skip
    password = "quite a long password 7"
    world.stack.command(
        "operator",
        "create",
        "--email",
        email,
        "--display-name",
        "R",
        "--role",
        role,
        "--password-stdin",
        stdin=password,
    )
    reader = world.client()
    await reader.sign_in_as_operator(email, password)
    assert "items" in await reader.get("/internal/mitras")
    assert "items" in await reader.get("/internal/config")
    assert await reader.call("PATCH", "/internal/config/mitra-ping", {})
    for method, path, body in (
        ("POST", "/internal/mitras", {"phone": a_number(), "display_name": "x"}),
        ("POST", f"/internal/mitras/{new_id()}/force-offline", None),
        ("GET", f"/internal/customers/{new_id()}", None),
        ("GET", "/internal/failed-pairings", None),
        ("PATCH", f"/internal/failed-pairings/{new_id()}", {"operator_action": "refunded"}),
        ("GET", "/internal/webhook-logs", None),
        ("GET", "/internal/ledger/audit", None),
    ):
        await refused(reader.call(method, path, body), 403, "FORBIDDEN")
