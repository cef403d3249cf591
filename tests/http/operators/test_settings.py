"""Configuration: each documented key is typed and bounded; a change reaches every process within a second.

See docs/configuration.md.
"""

import asyncio
from typing import Any

import pytest

from core.base.languages import Language
from core.config.keys import KEYS, Shape
from tests.http.operators.second_factor import an_enrolled_operator
from tests.http.operators.steps import an_operator, at_once, audits
from tests.stack import World, refused, within
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio

CADENCE = 30  # the heartbeat cadence, which bounds the silence after which a mitra is offline
NUMBERS = {
    name: (
        key.default,
        str(key.unit.word),
        (max(key.bounds[0], CADENCE) if key.fraction else key.bounds[0], key.bounds[1]),
    )
    for name, key in KEYS.items()
    if key.unit is not None and key.bounds is not None
}
SWITCHES = {name: key.default for name, key in KEYS.items() if key.shape is Shape.FLAG}
PING = "/internal/config/mitra-ping"
DEADLOCK = "deadlock detected"  # in the log of PostgreSQL


def path(key: str) -> str:
    return f"/internal/config/{key}"


async def test_config_rows_are_exactly_the_declared_ones(world: World) -> None:
    rows = {row["key"]: row for row in (await (await world.operator()).get("/internal/config"))["items"]}
    assert list(rows) == list(KEYS)
    assert {key: row["used"] for key, row in rows.items()} == {name: key.used for name, key in KEYS.items()}
    for key, (default, unit, bounds) in NUMBERS.items():
        row = rows[key]
        assert (row["default"], row["unit"], (row["min"], row["max"])) == (default, unit, bounds), key
    for key, default in SWITCHES.items():
        row = rows[key]
        assert (row["default"], row["unit"], row["min"], row["max"]) == (default, None, None, None), key
    assert rows["extension_default_action_on_timeout"]["default"] == "auto_approve"
    assert rows["extension_default_action_on_timeout"]["choices"] == ["auto_approve", "reject"]
    assert rows["anonymity"]["default"] == {"enabled": False}
    assert all(set(tier) == {"duration_minutes", "price", "label"} for tier in rows["price_tiers"]["default"])
    assert set(rows["support_handles"]["default"]) == {"primary", "secondary"}


async def test_words_of_config_rows_are_in_the_language_of_the_request(world: World) -> None:
    operator = await world.operator()
    for language in Language:
        headers = {"Accept-Language": language.value}
        rows = {row["key"]: row for row in (await operator.call("GET", "/internal/config", headers=headers))["items"]}
        for name, key in KEYS.items():
            words = [key.label, key.group.value, key.meaning, *([] if key.unit is None else [key.unit.word])]
            shown = [rows[name][part] for part in ("label", "group", "meaning", "unit") if rows[name][part] is not None]
            assert shown == [text.said_in(language) for text in words], name
            assert rows[name]["choice_labels"] == {one: text.said_in(language) for one, text in key.choices.items()}
        row = await operator.call("GET", path("blast_size"), headers=headers)
        assert row == rows["blast_size"]
        assert await operator.call("PUT", path("blast_size"), {"value": row["value"]}, headers=headers) == {
            **row,
            "updated_at": (await operator.get(path("blast_size")))["updated_at"],
            "updated_by": {"id": operator.user["id"], "display_name": "Root"},
        }


@pytest.mark.parametrize("key", NUMBERS)
async def test_number_accepts_its_bounds_and_nothing_beyond(world: World, key: str) -> None:
    operator = await world.operator()
    default, unit, (low, high) = NUMBERS[key]
    before = (await operator.get(path(key)))["value"]
    count = len(await audits(world, key))
    try:
        fractions = () if key == "mitra_stale_after_seconds" else (float(default), default + 0.5)
        for value in (low - 1, high + 1, 10**30, -1, str(default), *fractions, True, None, [], {}):
            error = await refused(operator.call("PUT", path(key), {"value": value}), 422, "VALIDATION_ERROR")
            (field,) = error["details"]["fields"]
            assert field["field"] == "value"
            assert f"{low:,} to {high:,} {unit}" in field["message"]
        assert len(await audits(world, key)) == count
        if key.startswith("cc_login"):  # with 0 attempts no other operator could sign in
            return
        for method, value in (("PUT", high), ("PATCH", max(low, 1)), ("PUT", default)):
            row = await operator.call(method, path(key), {"value": value})
            assert (row["value"], row["updated_by"]["id"]) == (value, operator.user["id"])
            assert (await audits(world, key))[-1]["after"] == {"value": value}
        assert len(await audits(world, key)) == count + 3
    finally:
        await operator.call("PUT", path(key), {"value": before})


@pytest.mark.parametrize("key", SWITCHES)
async def test_switch_accepts_only_true_or_false(world: World, key: str) -> None:
    operator = await world.operator()
    before = (await operator.get(path(key)))["value"]
    try:
        for value in (0, 1, "true", None, [], {"value": True}, 1.0):
            error = await refused(operator.call("PATCH", path(key), {"value": value}), 422, "VALIDATION_ERROR")
            assert "true or false" in error["details"]["fields"][0]["message"]
        row = await operator.call("PATCH", path(key), {"value": not before})
        assert row["value"] is (not before)
        assert row["updated_by"] == {"id": operator.user["id"], "display_name": "Root"}
        assert await operator.get(path(key)) == row
    finally:
        await operator.call("PUT", path(key), {"value": before})


async def test_setting_that_another_operator_changed_is_not_overwritten(world: World) -> None:
    operator = await world.operator()
    for method in ("PUT", "PATCH"):
        before = await operator.get(path("blast_size"))
        seen = before["updated_at"]
        now = await operator.call(method, path("blast_size"), {"value": before["value"] + 1, "updated_at": seen})
        assert now["updated_at"] > seen
        stale = {"value": before["value"], "updated_at": seen}
        error = await refused(operator.call(method, path("blast_size"), stale), 409, "STALE_WRITE")
        assert error["details"]["current"] == {"value": now["value"], "updated_at": now["updated_at"]}
        assert await operator.get(path("blast_size")) == now
        back = {"value": before["value"], "updated_at": now["updated_at"]}
        assert (await operator.call(method, path("blast_size"), back))["value"] == before["value"]
        for wrong in ("yesterday", "2026-01-01T00:00:00", 5):
            body = {"value": before["value"], "updated_at": wrong}
            error = await refused(operator.call(method, path("blast_size"), body), 422, "VALIDATION_ERROR")
            assert [one["field"] for one in error["details"]["fields"]] == ["updated_at"]
        for body in ({}, {"value": 0, "more": 1}):
            await refused(operator.call(method, path("blast_size"), body), 422, "VALIDATION_ERROR")


async def test_structured_config_values_are_validated(world: World) -> None:
    operator = await world.operator()
    for key, good, bad in (
        ("anonymity", {"enabled": True}, [{"enabled": 1}, {}, {"enabled": True, "x": 1}, True, None]),
        ("price_tiers", [], [{}, "[]", None, {"value": []}]),
        ("extension_default_action_on_timeout", "reject", ["", "Reject", None, True]),
        ("minimum_version_android", "1.4.0", ["", "1.4", 1.4, {}]),
        ("business_time_zone", "America/New_York", ["", "Asia/Bandung", "UTC+7", None]),
        ("maintenance", {"message_id": "a", "message_en": "b", "until": None}, [{}, "", {"message_id": "a"}]),
    ):
        before = (await operator.get(path(key)))["value"]
        try:
            for value in bad:
                await refused(operator.call("PUT", path(key), {"value": value}), 422, "VALIDATION_ERROR")
            assert (await operator.call("PUT", path(key), {"value": good}))["value"] == good
        finally:
            await operator.call("PUT", path(key), {"value": before})


async def test_sensitive_rows_need_their_own_area_and_a_fresh_code(world: World) -> None:
    sensitive = [key for key, row in KEYS.items() if row.sensitive]
    setter, guard = (
        await an_operator(world, {"config": "write"}),
        await an_enrolled_operator(world, {"security": "write"}),
    )
    reader = await an_operator(world, {"security": "read"})
    rows = {row["key"]: row for row in (await (await world.operator()).get("/internal/config"))["items"]}
    for client, seen in ((setter.client, set(KEYS) - set(sensitive)), (reader.client, set(sensitive))):
        assert {row["key"] for row in (await client.get("/internal/config"))["items"]} == seen
    for key in sensitive:
        assert rows[key]["area"] == "security"
        same = {"value": rows[key]["value"]}
        await refused(setter.client.get(path(key)), 403, "FORBIDDEN")
        await refused(setter.client.call("PUT", path(key), same), 403, "FORBIDDEN")
        await refused(setter.client.call("PATCH", path(key), {}), 403, "FORBIDDEN")
        await refused(reader.client.call("PUT", path(key), same), 403, "FORBIDDEN")
        await refused(guard.client.call("PUT", path(key), same), 403, "TOTP_REQUIRED")
        assert (await guard.client.get(path(key)))["value"] == same["value"]
    await refused(guard.client.get(path("maintenance")), 403, "FORBIDDEN")
    await refused(guard.client.call("PUT", path("maintenance"), {"value": None}), 403, "FORBIDDEN")
    assert (await setter.client.call("PUT", path("maintenance"), {"value": None}))["area"] == "config"
    await guard.step_up()
    for method in ("PUT", "PATCH"):
        saved = await guard.client.call(method, path(sensitive[0]), {"value": rows[sensitive[0]]["value"]})
        assert saved["updated_by"]["id"] == guard.id


async def test_concurrent_changes_of_both_ping_settings_never_deadlock(world: World) -> None:
    operator, log = await world.operator(), world.stack.root / "log" / "postgres.log"
    before, deadlocks = await operator.get(PING), log.read_text().count(DEADLOCK)
    bodies = [{"require_ping": True, "stale_after_seconds": 40}, {"stale_after_seconds": 41, "require_ping": False}]
    try:
        seen = await at_once(40, lambda n: operator.call("PATCH", PING, bodies[n % 2]))
        assert {status for status, _ in seen} == {200}
        assert log.read_text().count(DEADLOCK) == deadlocks
    finally:
        restored = {name: before[name] for name in ("require_ping", "stale_after_seconds")}
        assert await operator.call("PATCH", PING, restored) == before


async def test_config_change_reaches_every_process_within_a_second(world: World) -> None:
    """Check it on two api processes, and on the jobs process, which applies the current configuration."""
    stack = world.stack
    public, internal = free_port(), free_port()
    stack.start("api", key="api2", PUBLIC_PORT=str(public), INTERNAL_PORT=str(internal))
    try:
        await asyncio.to_thread(stack.wait_ready, "api", port=internal)
        stranger, operator = world.client(), await world.operator()

        async def there() -> Any:
            return (await stranger.get(f"http://127.0.0.1:{public}/api/shared/config/otp"))["resend_cooldown_seconds"]

        for value in (61, 62, 60):
            await world.config("otp_resend_cooldown_seconds", value)
            assert (await stranger.get("/api/shared/config/otp"))["resend_cooldown_seconds"] == value
            await world.until(there, lambda seen, value=value: seen == value, timeout=within(1))
        # Written through the second process, known to the first.
        await operator.call("PUT", f"http://127.0.0.1:{internal}{path('otp_resend_cooldown_seconds')}", {"value": 63})
        await world.until(
            lambda: stranger.get("/api/shared/config/otp"),
            lambda seen: seen["resend_cooldown_seconds"] == 63,
            timeout=within(1),
        )
        await world.config("otp_resend_cooldown_seconds", 60)
        # The jobs process judges silence by the current rule: a silent mitra goes offline once pings are required.
        mitra = await world.mitra()
        where = f"/internal/mitras/{mitra.user['id']}"
        await operator.call("PATCH", PING, {"require_ping": False})
        await stack.sql(
            # Longer than the silence that is excused after a start, or while a process is late.
            "UPDATE mitra_online_status SET last_heartbeat_at = now() - interval '1 day' WHERE mitra_id = $1::text::uuid",
            mitra.user["id"],
        )
        assert (await operator.get(where))["is_online"] is True
        await operator.call("PATCH", PING, {"require_ping": True})
        await world.until(lambda: operator.get(where), lambda seen: not seen["is_online"])
    finally:
        await world.config("otp_resend_cooldown_seconds", 60)
        await world.config("require_mitra_ping", True)
        await asyncio.to_thread(stack.stop, "api2")
