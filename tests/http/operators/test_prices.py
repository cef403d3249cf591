"""Prices: every write carries the row's version token and adds a history row.

Two operators never overwrite each other's changes.
"""

import asyncio
import contextlib
import datetime as dt
import json
import random
import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.http.operators.steps import an_operator, at_once, audits
from tests.stack import World, new_id, refused
from tests.tiers import rounds
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio

TIERS = "/internal/pricing/tiers"
PROMOTION = "/internal/pricing/promotions/first-session"
TIER_FIELDS = {"id", "mode", "minutes", "price_idr", "tag", "sort_order", "is_active", "updated_at", "scheduled"}
PROMOTION_FIELDS = {"enabled", "price_idr", "gimmick_price_idr", "duration_minutes", "modes", "updated_at"}
TOKEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
OF_NO_TIER = 1439  # a tier with these minutes is inserted, which the missing history refuses
USED: set[int] = {12, 30, 60, OF_NO_TIER}
OLD = "2026-01-01T00:00:00.000000Z"


def unused_minutes() -> int:
    """Return minutes that no other tier has, so that each test has its own tiers (test_audit_rows.py has those from 1000)."""
    made = random.SystemRandom().choice([n for n in range(61, 1000) if n not in USED])
    USED.add(made)
    return made


@contextlib.asynccontextmanager
async def a_tier(operator: Device, **more: Any) -> AsyncIterator[dict[str, Any]]:
    """Create a tier for the test, and remove it from the price list when the test ends."""
    body = {"mode": "chat", "minutes": unused_minutes(), "price_idr": 9000, **more}
    made = await operator.post(TIERS, body)
    try:
        yield made
    finally:
        now = await find_tier(operator, made["id"])
        await delete(operator, now)


async def find_tier(operator: Device, tier_id: str) -> dict[str, Any]:
    (one,) = [tier for tier in (await operator.get(TIERS))["items"] if tier["id"] == tier_id]
    return one


def patch(operator: Device, tier: dict[str, Any], **change: Any) -> Any:
    return operator.call("PATCH", f"{TIERS}/{tier['id']}", {"updated_at": tier["updated_at"], **change})


def delete(operator: Device, tier: dict[str, Any]) -> Any:
    return operator.call("DELETE", f"{TIERS}/{tier['id']}", params={"updated_at": tier["updated_at"]})


def reactivate(operator: Device, tier: dict[str, Any]) -> Any:
    return operator.post(f"{TIERS}/{tier['id']}/reactivate", {"updated_at": tier["updated_at"]})


def schedule(operator: Device, tier: dict[str, Any], price: Any, starts_at: Any) -> Any:
    body = {"price_idr": price, "starts_at": starts_at, "updated_at": tier["updated_at"]}
    return operator.post(f"{TIERS}/{tier['id']}/schedule", body)


def cancel(operator: Device, tier: dict[str, Any], schedule_id: str) -> Any:
    return operator.call("DELETE", f"{TIERS}/{tier['id']}/schedule/{schedule_id}")


def order(operator: Device, tiers: list[dict[str, Any]], mode: str = "chat") -> Any:
    items = [{"id": tier["id"], "updated_at": tier["updated_at"]} for tier in tiers]
    return operator.call("PUT", f"{TIERS}/order", {"mode": mode, "items": items})


async def history(operator: Device, tier_id: str) -> list[dict[str, Any]]:
    return (await operator.get(f"{TIERS}/{tier_id}/history"))["items"]


async def on_sale(customer: Device, mode: str = "chat") -> list[dict[str, Any]]:
    """Return the tiers that a customer may buy, in order."""
    return (await customer.get("/api/client/chat/pricing"))[mode]["tiers"]


async def test_new_tier_is_last_unless_a_position_is_given(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    highest = max(tier["sort_order"] for tier in (await operator.get(TIERS, mode="call"))["items"])
    async with (
        a_tier(operator, mode="call", tag="baru") as last,
        a_tier(operator, mode="call", sort_order=0, price_idr=0) as first,
    ):
        assert set(last) == TIER_FIELDS
        assert (last["tag"], last["is_active"], last["sort_order"]) == ("baru", True, highest + 1)
        assert TOKEN.fullmatch(last["updated_at"])
        listed = (await operator.get(TIERS, mode="call"))["items"]
        assert {tier["mode"] for tier in listed} == {"call"}
        assert listed == sorted(listed, key=lambda tier: (tier["sort_order"], tier["minutes"]))
        both = (await operator.get(TIERS))["items"]
        assert [tier["mode"] for tier in both] == sorted(tier["mode"] for tier in both)
        sold = await on_sale(customer, "call")
        assert sold == [
            {name: tier[name] for name in ("id", "minutes", "price_idr", "tag")} for tier in listed if tier["is_active"]
        ]
        assert first["sort_order"] == 0
    await refused(operator.get(TIERS, mode="video"), 422, "VALIDATION_ERROR")


async def test_duplicate_minutes_of_a_mode_are_refused_even_if_deleted(world: World) -> None:
    operator = await world.operator()
    minutes = unused_minutes()
    body = {"mode": "chat", "minutes": minutes, "price_idr": 1}
    seen = await at_once(8, lambda _: operator.post(TIERS, body))
    (made,) = [one[1] for one in seen if one[0] == 200]
    assert sorted(one[0] for one in seen) == [200] + [409] * 7
    assert (await refused(operator.post(TIERS, body), 409, "TIER_EXISTS"))["details"]["id"] == made["id"]
    await delete(operator, made)
    assert (await refused(operator.post(TIERS, body), 409, "TIER_EXISTS"))["details"]["id"] == made["id"]
    other_mode = await operator.post(TIERS, {**body, "mode": "call"})
    await delete(operator, other_mode)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("mode", {"mode": "video"}),
        ("minutes", {"minutes": 0}),
        ("minutes", {"minutes": 1441}),
        ("minutes", {"minutes": 12.0}),
        ("price_idr", {"price_idr": -1}),
        ("price_idr", {"price_idr": "9000"}),
        ("price_idr", {"price_idr": 2**31}),
        ("tag", {"tag": ""}),
        ("tag", {"tag": "x" * 101}),
        ("sort_order", {"sort_order": -1}),
        ("sort_order", {"sort_order": 2**31 - 1}),
        ("is_active", {"is_active": True}),
    ],
)
async def test_invalid_tier_field_is_named(world: World, field: str, change: dict[str, Any]) -> None:
    operator = await world.operator()
    body = {"mode": "chat", "minutes": unused_minutes(), "price_idr": 9000, **change}
    error = await refused(operator.post(TIERS, body), 422, "VALIDATION_ERROR")
    assert [item["field"] for item in error["details"]["fields"]] == [field]


async def test_tier_allows_changes_of_price_tag_and_order_only(world: World) -> None:
    operator = await world.operator()
    async with a_tier(operator, tag="hemat") as tier:
        changed = await patch(operator, tier, price_idr=9500)
        assert changed == {**tier, "price_idr": 9500, "updated_at": changed["updated_at"]}
        assert changed["updated_at"] > tier["updated_at"]
        bare = await patch(operator, changed, tag=None, sort_order=40)
        assert (bare["tag"], bare["sort_order"], bare["price_idr"]) == (None, 40, 9500)
        for change in (
            {"minutes": 7},
            {"mode": "call"},
            {"is_active": False},
            {"id": new_id()},
            {"minutes": tier["minutes"]},
        ):
            error = await refused(patch(operator, bare, **change), 422, "VALIDATION_ERROR")
            assert [item["field"] for item in error["details"]["fields"]] == list(change)
        for change in ({"price_idr": None}, {"sort_order": None}, {"price_idr": -1}, {"price_idr": True}):
            await refused(patch(operator, bare, **change), 422, "VALIDATION_ERROR")
        await refused(
            operator.call("PATCH", f"{TIERS}/{tier['id']}", {"price_idr": 1}), 422, "VALIDATION_ERROR"
        )  # no version token
        assert await find_tier(operator, tier["id"]) == bare


async def test_stale_version_token_is_refused_with_the_current_row(world: World) -> None:
    operator = await world.operator()
    async with a_tier(operator) as tier:
        now = await patch(operator, tier, price_idr=1)
        for token in (
            tier["updated_at"],
            OLD,
            now["updated_at"].lower(),
            now["updated_at"].replace("Z", "+00:00"),
            "x",
        ):
            old = {**tier, "updated_at": token}
            listed = (await operator.get(TIERS, mode="chat"))["items"]
            for call in (
                patch(operator, old, price_idr=2),
                delete(operator, old),
                reactivate(operator, old),
                order(operator, [old, *[one for one in listed if one["id"] != tier["id"]]]),
            ):
                error = await refused(call, 409, "STALE_WRITE")
                assert error["details"]["current"] == now
        assert await find_tier(operator, tier["id"]) == now
        await refused(operator.call("DELETE", f"{TIERS}/{tier['id']}"), 422, "VALIDATION_ERROR")
    for one in (new_id(), "nonsense"):
        ghost = {"id": one, "updated_at": OLD}
        for call in (patch(operator, ghost, price_idr=1), delete(operator, ghost), reactivate(operator, ghost)):
            await refused(call, 404, "NOT_FOUND")
        await refused(operator.get(f"{TIERS}/{one}/history"), 404, "NOT_FOUND")


async def test_concurrent_edits_of_one_tier_refuse_exactly_one(world: World) -> None:
    root, other = await world.operator(), (await an_operator(world, {"pricing": "write"})).client
    async with a_tier(root) as tier:
        tokens = {tier["updated_at"]}
        turns = rounds(50)
        for turn in range(turns):
            wishes = [(root, 10_000 + turn), (other, 20_000 + turn)]

            async def edit(n: int, wishes: Any = wishes, tier: Any = tier) -> Any:
                client, price = wishes[n]
                return await patch(client, tier, price_idr=price)

            seen = await at_once(2, edit)
            (won,) = [one[1] for one in seen if one[0] == 200]
            assert [one for one in seen if one[0] != 200] == [(409, "STALE_WRITE")]
            tokens.add(won["updated_at"])
            tier = won  # noqa: PLW2901 - the next turn edits what this one left
        assert len(tokens) == turns + 1
        rows = await world.stack.sql(
            "SELECT count(*) FROM pricing_tiers_history WHERE pricing_tier_id = $1::text::uuid", tier["id"]
        )
        assert rows[0][0] == turns + 1
        assert len(await audits(world, tier["id"])) == turns + 1


async def test_tier_order_is_set_for_all_or_none(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()

    async def now() -> list[dict[str, Any]]:
        return (await operator.get(TIERS, mode="call"))["items"]

    async with a_tier(operator, mode="call") as own, a_tier(operator, mode="chat") as foreign:
        began = [tier for tier in await now() if tier["is_active"]]
        wished = [own["id"], *[tier["id"] for tier in reversed(began) if tier["id"] != own["id"]]]
        by_id = {tier["id"]: tier for tier in began}
        answered = await order(operator, [by_id[one] for one in wished], "call")
        assert [tier["id"] for tier in answered["items"] if tier["is_active"]] == wished
        assert [tier["id"] for tier in await on_sale(customer, "call")] == wished
        fresh = await now()
        active = [tier for tier in fresh if tier["is_active"]]
        for items, refusal in (
            (active[1:], (422, "VALIDATION_ERROR")),
            ([*active, active[0]], (422, "VALIDATION_ERROR")),
            ([], (422, "VALIDATION_ERROR")),
            ([*active, foreign], (404, "NOT_FOUND")),
            ([*active, {"id": new_id(), "updated_at": OLD}], (404, "NOT_FOUND")),
            ([*active[:-1], {**active[-1], "updated_at": OLD}], (409, "STALE_WRITE")),
        ):
            await refused(order(operator, list(reversed(items)), "call"), *refusal)
        assert await now() == fresh
        moved = [
            row for tier in fresh for row in await history(operator, tier["id"]) if row["change_kind"] == "reordered"
        ]
        assert moved
        assert all(row["before"]["sort_order"] != row["after"]["sort_order"] for row in moved)
        written = len(await audits(world, "call"))
        assert (await order(operator, active, "call"))["items"] == fresh  # unchanged
        assert len(await audits(world, "call")) == written
        restored = sorted(active, key=lambda tier: began.index(next(one for one in began if one["id"] == tier["id"])))
        await order(operator, restored, "call")


async def test_tier_deletion_requires_its_version_token(world: World) -> None:
    operator = await world.operator()
    async with a_tier(operator) as tier:
        error = await refused(operator.call("DELETE", f"{TIERS}/{tier['id']}"), 422, "VALIDATION_ERROR")
        assert error["details"] == {"fields": [{"field": "updated_at", "message": "is required"}]}
        assert (await find_tier(operator, tier["id"]))["is_active"]


async def test_deleted_tier_disappears_for_customers_at_once_and_can_return(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    async with a_tier(operator, price_idr=7700) as tier:
        wish = {"duration_minutes": tier["minutes"]}
        pending = await world.request(customer, **wish)
        gone = await delete(operator, tier)
        assert (gone["is_active"], gone["price_idr"]) == (False, 7700)
        assert tier["id"] not in [one["id"] for one in await on_sale(customer)]
        await refused(world.request(await world.customer(), **wish), 409, "TIER_NOT_FOUND")
        back = await reactivate(operator, gone)
        assert {**back, "updated_at": ""} == {**tier, "updated_at": ""}
        assert tier["id"] in [one["id"] for one in await on_sale(customer)]
        dearer = await patch(operator, back, price_idr=9900)
        assert [one["price_idr"] for one in await on_sale(customer) if one["id"] == tier["id"]] == [9900]
        # A pending request keeps the price that it was created with.
        again = await customer.get(f"/api/client/payment/requests/{pending['payment_request_id']}")
        assert (again["amount"], again["status"]) == (7700, "pending")
        assert (await world.webhook(again))[1]["processing_result"] == "confirmed"
        assert (await world.request(await world.customer(), **wish))["amount"] == 9900
        kinds = [row["change_kind"] for row in await history(operator, dearer["id"])]
        assert kinds == ["updated", "reactivated", "deleted", "created"]


async def test_tier_history_is_complete_and_names_the_operators(world: World) -> None:
    root, other = await world.operator(), await an_operator(world, {"pricing": "write"})
    async with a_tier(root, tag="a") as tier:
        changed = await patch(other.client, tier, price_idr=1, tag=None)
        assert await patch(root, changed, price_idr=1) == changed  # nothing changes, so no version token becomes stale
        newest, first = await history(root, tier["id"])
        assert set(newest) == {"id", "change_kind", "changed_by", "changed_at", "before", "after", "schedule"}
        assert newest["changed_by"] == {"id": other.id, "display_name": "Sari"}
        assert (first["change_kind"], first["before"]) == ("created", None)
        assert newest["before"] == first["after"]
        differing = {name for name in newest["after"] if newest["after"][name] != newest["before"][name]}
        assert differing == {"price_idr", "tag", "updated_at"}
        page = await root.get(f"{TIERS}/{tier['id']}/history", limit=1)
        assert [row["id"] for row in page["items"]] == [newest["id"]]
        rest = await root.get(f"{TIERS}/{tier['id']}/history", limit=1, cursor=page["next_cursor"])
        assert ([row["id"] for row in rest["items"]], rest["next_cursor"]) == ([first["id"]], None)
        assert [row["action"] for row in await audits(world, tier["id"])] == ["tier.created", "tier.updated"]
    seeded = [one for one in (await root.get(TIERS))["items"] if one["minutes"] == 12 and one["mode"] == "chat"]
    assert (await history(root, seeded[0]["id"]))[-1]["changed_by"] is None


async def test_scheduled_price_starts_by_itself_and_is_cancelled_by_hand(world: World) -> None:
    operator, customer = await an_operator(world, {"pricing": "write"}), await world.customer()
    client = operator.client

    async def price() -> int:
        return next(one["price_idr"] for one in await on_sale(customer) if one["id"] == tier["id"])

    async with a_tier(client) as tier:
        soon, later = (operator.client.clock.now() + dt.timedelta(**wait) for wait in ({"seconds": 3}, {"days": 1}))
        planned = await schedule(client, tier, 8_000, soon.isoformat())
        assert planned == await find_tier(client, tier["id"])
        assert planned["updated_at"] > tier["updated_at"]
        (first,) = planned["scheduled"]
        assert set(first) == {"id", "price_idr", "starts_at", "asked_by", "asked_at"}
        assert (first["price_idr"], first["asked_by"]["id"]) == (8_000, operator.id)
        assert dt.datetime.fromisoformat(first["starts_at"]) == soon
        both = await schedule(client, planned, 9_500, later.isoformat())
        assert [one["price_idr"] for one in both["scheduled"]] == [8_000, 9_500]
        assert await price() == 9_000
        await world.until(price, lambda seen: seen == 8_000)
        started = await find_tier(client, tier["id"])
        (left,) = started["scheduled"]
        assert left == both["scheduled"][1]
        await refused(cancel(client, tier, first["id"]), 404, "NOT_FOUND")
        gone = await cancel(client, started, left["id"])
        assert (gone["scheduled"], gone["price_idr"]) == ([], 8_000)
        assert gone["updated_at"] > started["updated_at"]
        await refused(cancel(client, gone, left["id"]), 404, "NOT_FOUND")
        newest = await history(client, tier["id"])
        assert [one["change_kind"] for one in newest] == [
            "unscheduled",
            "started",
            "scheduled",
            "scheduled",
            "created",
        ]
        assert newest[1]["changed_by"]["id"] == operator.id
        assert newest[1]["schedule"] == {name: first[name] for name in ("price_idr", "starts_at", "asked_at")}
        assert newest[1]["changed_at"] >= first["starts_at"]
        actions = [row["action"] for row in await audits(world, tier["id"])]
        assert actions == ["tier.created", "tier.scheduled", "tier.scheduled", "tier.unscheduled"]


async def test_scheduled_price_that_does_not_fit_is_refused(world: World) -> None:
    operator = await world.operator()
    now = operator.clock.now()
    later = (now + dt.timedelta(days=1)).replace(second=1, microsecond=0)
    async with a_tier(operator) as tier:
        for price, starts_at, field in (
            (1, now.isoformat(), "starts_at"),
            (1, (now - dt.timedelta(days=1)).isoformat(), "starts_at"),
            (1, later.replace(tzinfo=None).isoformat(), "starts_at"),
            (1, "tomorrow", "starts_at"),
            (1, None, "starts_at"),
            (-1, later.isoformat(), "price_idr"),
            ("1", later.isoformat(), "price_idr"),
            (2**31, later.isoformat(), "price_idr"),
        ):
            error = await refused(schedule(operator, tier, price, starts_at), 422, "VALIDATION_ERROR")
            assert [item["field"] for item in error["details"]["fields"]] == [field], (price, starts_at)
        planned = await schedule(operator, tier, 1, later.isoformat())
        taken = await refused(
            schedule(operator, planned, 2, later.replace(second=59).isoformat()), 409, "PRICE_SCHEDULED"
        )
        assert taken["details"] == {"id": planned["scheduled"][0]["id"]}
        stale = await refused(schedule(operator, tier, 2, later.isoformat()), 409, "STALE_WRITE")
        assert stale["details"]["current"] == planned
        kept = await patch(operator, planned, tag="nanti")
        assert kept["scheduled"] == planned["scheduled"]
        deleted = await delete(operator, kept)
        assert deleted["scheduled"] == []
        await refused(schedule(operator, deleted, 1, later.isoformat()), 409, "TIER_NOT_FOUND")
        assert (await reactivate(operator, deleted))["scheduled"] == []
    for one in (new_id(), "nonsense"):
        await refused(schedule(operator, {"id": one, "updated_at": OLD}, 1, later.isoformat()), 404, "NOT_FOUND")
        await refused(cancel(operator, {"id": one}, new_id()), 404, "NOT_FOUND")
        await refused(cancel(operator, tier, one), 404, "NOT_FOUND")


async def test_of_many_prices_for_one_minute_one_is_scheduled(world: World) -> None:
    operator = await world.operator()
    later = (operator.clock.now() + dt.timedelta(days=1)).isoformat()
    async with a_tier(operator) as tier:

        async def insist(n: int) -> Any:
            while True:
                try:
                    return await schedule(operator, await find_tier(operator, tier["id"]), n, later)
                except Refused as no:
                    if no.code != "STALE_WRITE":
                        raise

        seen = await at_once(8, insist)
        assert sorted(status for status, _ in seen) == [200] + [409] * 7
        assert {code for status, code in seen if status == 409} == {"PRICE_SCHEDULED"}
        assert len((await find_tier(operator, tier["id"]))["scheduled"]) == 1


@pytest.mark.parametrize("table", ["pricing_tiers", "pricing_promotions"])
async def test_database_refuses_a_price_change_without_history(world: World, table: str) -> None:
    connection = await asyncpg.connect(world.stack.database_url)
    try:
        before = await connection.fetch(f"SELECT * FROM {table} ORDER BY id")
        for statement in (
            f"UPDATE {table} SET price_idr = price_idr + 1",
            f"UPDATE {table} SET updated_at = updated_at + interval '1 microsecond'",
            f"INSERT INTO {table} SELECT (jsonb_populate_record(t, jsonb_build_object('id', '{new_id()}', 'minutes',"
            f" {OF_NO_TIER}, 'key', 'another'))).* FROM {table} t LIMIT 1",
        ):
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(statement)  # the commit fails
            with pytest.raises(asyncpg.CheckViolationError, match="without its history row"):
                await transaction.commit()
        assert await connection.fetch(f"SELECT * FROM {table} ORDER BY id") == before
    finally:
        await connection.close()


async def test_promotion_change_needs_its_version_token_and_adds_history(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    before = await operator.get(PROMOTION)
    assert set(before) == PROMOTION_FIELDS
    assert TOKEN.fullmatch(before["updated_at"])

    async def change(token: str, **values: Any) -> Any:
        return await operator.call("PATCH", PROMOTION, {"updated_at": token, **values})

    async def offer() -> dict[str, Any]:
        return (await customer.get("/api/client/chat/pricing"))["first_session_discount"]

    token = before["updated_at"]
    try:
        now = await change(token, price_idr=2500, gimmick_price_idr=15000, duration_minutes=12, modes=["chat", "call"])
        token = now["updated_at"]
        seen = await offer()
        assert (seen["price_idr"], seen["gimmick_price_idr"], seen["duration_minutes"]) == (2500, 15000, 12)
        assert (sorted(seen["modes"]), seen["enabled"], seen["eligible"]) == (["call", "chat"], True, True)
        asked = await world.request(customer, first_session_discount=True, mode="call")
        assert asked["amount"] == 2500
        off = await change(token, enabled=False)
        token = off["updated_at"]
        seen = await offer()
        assert (seen["enabled"], seen["eligible"]) == (False, False)
        other = await world.customer()
        await refused(world.request(other, first_session_discount=True), 409, "DISCOUNT_NOT_ELIGIBLE")
        mine = await customer.get(f"/api/client/payment/requests/{asked['payment_request_id']}")
        assert (mine["amount"], mine["status"]) == (2500, "pending")
        error = await refused(change(before["updated_at"], enabled=True), 409, "STALE_WRITE")
        assert error["details"]["current"] == off
        assert await change(token) == off
        for values in (
            {"modes": ["video"]}, {"modes": ["chat", "chat"]}, {"modes": "chat"}, {"modes": None}, {"price_idr": -1},
            {"duration_minutes": 0}, {"enabled": 1}, {"key": "x"}, {"enabled": None},
        ):  # fmt: skip
            await refused(change(token, **values), 422, "VALIDATION_ERROR")
        seen_at_once = await at_once(5, lambda n: change(token, price_idr=3000 + n))
        assert sorted(one[0] for one in seen_at_once) == [200] + [409] * 4
        newest, *_ = rows = (await operator.get(PROMOTION + "/history"))["items"]
        assert newest["after"]["price_idr"] == (await operator.get(PROMOTION))["price_idr"]
        assert [row["change_kind"] for row in rows[:3]] == ["updated"] * 3
        assert rows[0]["changed_by"]["id"] == operator.user["id"]
        assert rows[1]["after"] == rows[0]["before"]
        ids = await world.stack.sql("SELECT id::text FROM pricing_promotions")
        assert [row["action"] for row in await audits(world, ids[0][0])][-3:] == ["promotion.updated"] * 3
    finally:
        now = await operator.get(PROMOTION)
        values = {name: before[name] for name in PROMOTION_FIELDS - {"updated_at"}}
        restored = await change(now["updated_at"], **values)
    assert json.dumps({**restored, "updated_at": 0}, sort_keys=True) == json.dumps(
        {**before, "updated_at": 0}, sort_keys=True
    )


async def test_concurrent_edits_of_different_tiers_both_succeed(world: World) -> None:
    operator = await world.operator()
    async with a_tier(operator) as one, a_tier(operator) as two:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(patch(operator, one, price_idr=1))
            second = group.create_task(patch(operator, two, price_idr=2))
        assert (first.result()["price_idr"], second.result()["price_idr"]) == (1, 2)
