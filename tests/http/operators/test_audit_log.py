"""The audit log: searchable by its filters, and unchangeable (docs/product.md#audit-log).

Only the personal fields of one customer's rows can be blanked.
"""

import asyncpg
import pytest

from tests.http.operators.steps import an_operator, audit_count, audits, every, found
from tests.stack import World, new_id, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

LOG = "/internal/audit-log"
FIELDS = {"id", "operator", "action", "object_type", "object_id", "object_name", "before", "after", "created_at"}


# -- the list


async def test_audit_log_filters_find_their_rows_across_pages(world: World) -> None:
    root, clerk = await world.operator(), await an_operator(world, {"mitras": "write", "config": "write"})
    mitra = (await world.mitra(online=False)).user["id"]
    for name in ("Ayu", "Bima", "Citra"):
        await clerk.client.call("PATCH", f"/internal/mitras/{mitra}", {"display_name": name})
    await clerk.client.call("PUT", "/internal/config/mitra_ping_interval_seconds", {"value": 15})
    rows = (await root.get(LOG, operator_id=clerk.id))["items"]
    assert [row["action"] for row in rows] == ["config.set", *["mitra.changed"] * 3]
    assert all(set(row) == FIELDS for row in rows)
    assert rows[1]["operator"] == {"id": clerk.id, "display_name": "Sari"}
    assert (rows[1]["before"]["display_name"], rows[1]["after"]["display_name"]) == ("Bima", "Citra")
    ids = [row["id"] for row in rows]
    assert await found(root, LOG, operator_id=clerk.id.upper(), action="config.set") == ids[:1]
    assert await found(root, LOG, operator_id=clerk.id, object_type="mitra") == ids[1:]
    assert await found(root, LOG, object_id=mitra, action="mitra.changed") == ids[1:]
    oldest, newest = rows[-1]["created_at"], rows[0]["created_at"]
    assert await found(root, LOG, operator_id=clerk.id, **{"from": oldest, "to": newest}) == ids[1:]
    assert [row["id"] for row in await every(root, LOG, limit=2, operator_id=clerk.id)] == ids
    assert await found(root, LOG, operator_id=new_id()) == await found(root, LOG, action="no.action") == []
    for query in ({"operator_id": "x"}, {"from": "yesterday"}, {"limit": 0}, {"cursor": "x"}):
        await refused(root.get(LOG, **query), 422, "VALIDATION_ERROR")


async def test_audit_log_names_objects_for_those_who_may_read_them(world: World) -> None:
    root, reader = await world.operator(), (await an_operator(world, {"audit": "read", "mitras": "read"})).client
    customer, mitra = await world.customer("Dewi"), await world.mitra("Ayu")
    session_id = await world.session(customer, mitra)
    await root.post(f"/internal/sessions/{session_id}/end", {"reason": "asked by the customer"})
    await root.post(f"/internal/mitras/{mitra.user['id']}/force-offline")
    tier = (await root.get("/internal/pricing/tiers", mode="chat"))["items"][0]
    await root.call("PATCH", f"/internal/pricing/tiers/{tier['id']}", {"updated_at": tier["updated_at"], "tag": "x"})
    clerk = await an_operator(world, {})

    async def name(object_id: str, client: Device = root) -> str | None:
        return (await client.get(LOG, object_id=object_id))["items"][0]["object_name"]

    assert await name(session_id) == "Dewi"
    assert await name(mitra.user["id"]) == await name(mitra.user["id"], reader) == "Ayu"
    assert await name(tier["id"]) == f"{tier['minutes']} min, chat"
    assert await name(clerk.id) == "Sari"
    for hidden in (session_id, tier["id"], clerk.id):
        assert await name(hidden, reader) is None
    await root.call("PUT", "/internal/config/mitra_ping_interval_seconds", {"value": 15})
    assert await name("mitra_ping_interval_seconds") is None


async def test_audit_log_requires_its_own_permission(world: World) -> None:
    everything_else = (await an_operator(world, {"operators": "write", "customers": "write"})).client
    await refused(everything_else.get(LOG), 403, "FORBIDDEN")
    assert (await (await an_operator(world, {"audit": "read"})).client.get(LOG, limit=1))["items"]


async def test_audit_log_filters_use_an_index(world: World) -> None:
    filters = {
        "operator_audit_log_operator": "operator_id = '00000000-0000-0000-0000-000000000000'",
        "operator_audit_log_action": "action = 'x'",
        "operator_audit_log_object_type": "object_type = 'x'",
        "operator_audit_log_listed": "(object_id = 'x' OR (object_id = 'list' AND after -> 'ids' ? 'x'))",
        "operator_audit_log_created": "true",
    }
    async with world.stack.transaction() as tx:
        await tx.execute("SET LOCAL enable_seqscan = off")
        await tx.execute("SET LOCAL enable_bitmapscan = on")
        await tx.execute("SET LOCAL enable_sort = off")  # it is cheap while the log has few rows
        for index, condition in filters.items():
            plan = await tx.fetch(
                f"EXPLAIN SELECT 1 FROM operator_audit_log WHERE {condition} ORDER BY created_at DESC, id DESC LIMIT 51"
            )
            if index == "operator_audit_log_listed":
                assert "Seq Scan" not in str(plan), plan
            else:
                assert index in str(plan), plan


# -- the guard


async def test_audit_rows_cannot_be_changed_or_deleted(world: World) -> None:
    await world.operator()
    before = await audit_count(world)
    assert before > 0
    for sql in (
        "UPDATE operator_audit_log SET action = 'x'",
        "UPDATE operator_audit_log SET after = NULL",
        "UPDATE operator_audit_log SET created_at = created_at",
        "DELETE FROM operator_audit_log",
    ):
        with pytest.raises(asyncpg.CheckViolationError, match="neither changed nor deleted"):
            await world.stack.sql(sql)
    # The setting that the blanking function uses permits nothing else.
    async with world.stack.transaction() as tx:
        await tx.execute("SET LOCAL sesi.blanks_audit_log = 'on'")
        with pytest.raises(asyncpg.CheckViolationError):
            await tx.execute("UPDATE operator_audit_log SET action = 'x'")
    assert await audit_count(world) == before


async def test_blanking_clears_personal_fields_of_one_customers_rows_only(world: World) -> None:
    root = await world.operator()
    ended = {}
    for name in ("Dewi", "Eka"):
        customer, mitra = await world.customer(name), await world.mitra()
        session_id = await world.session(customer, mitra)
        await root.post(f"/internal/sessions/{session_id}/end", {"reason": f"{name} called from +6281255500000"})
        ended[customer.user["id"]] = session_id
    (dewi, of_dewi), (_, of_eka) = ended.items()
    blank = "SELECT blank_operator_audit_log($1::text::uuid) AS rows"
    assert (await world.stack.sql(blank, dewi))[0]["rows"] == 1
    (row,) = await audits(world, of_dewi)
    assert (row["action"], row["before"]) == ("session.ended", {"status": "active"})
    assert row["after"] == {"status": "closing", "reason": None}
    assert "Eka" in (await audits(world, of_eka))[0]["after"]["reason"]
    assert (await world.stack.sql(blank, dewi))[0]["rows"] == 0
    story = await root.get("/internal/sessions", q=of_dewi)
    timeline = await root.get(f"/internal/payment-requests/{story['items'][0]['payment_request_id']}/timeline")
    assert any("the reason was erased" in entry["text"] for entry in timeline["entries"])
    # Only the function's owner may call it.
    (grants,) = await world.stack.sql(
        "SELECT proacl::text, prosecdef FROM pg_proc WHERE proname = 'blank_operator_audit_log'"
    )
    assert grants["prosecdef"]
    assert not any(grant.startswith(("=", "{=")) for grant in (grants["proacl"] or "").strip("{}").split(","))
