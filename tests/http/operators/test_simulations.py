"""Simulations: asked for over HTTP, computed by a child of the jobs process, saved with a setting, compared later."""

import json
from typing import Any

import pytest

from tests.http.operators.past_weeks import past_weeks
from tests.http.operators.steps import an_operator, at_once, audits
from tests.stack import World, new_id, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

PATH, CHANGES = "/internal/simulations", "/internal/config/changes"
FIGURES = ["unserved", "wait_p50", "wait_p90", "phones_rung", "load"]
ROWS = [
    {"figure": name, "present": present, "forecast": forecast, "low": low, "high": high}
    for name, present, forecast, low, high in (
        ("unserved", 0.085, 0.063, 0.051, 0.07), ("wait_p50", 13.4, 12.9, 12.1, 13.5), ("wait_p90", 98.2, 116.0, 108.5, 121.0),
        ("phones_rung", 9.1, 9.5, 9.2, 9.9), ("load", 1.42, 1.47, 1.4, 1.55),
    )
]  # fmt: skip
RESULT = {
    "rows": ROWS, "back_test": [{"figure": "unserved", "forecast": 0.041, "happened": 0.038}], "guessed": 0.08,
    "by_hour": [
        {"weekday": n // 24 + 1, "hour": n % 24, "searches": 9, "present": n % 24 / 80, "forecast": n % 24 / 99}
        for n in range(168)
    ],
    "waits": [
        {"upto": upto, "present": share, "forecast": 0.2 - share}
        for upto, share in ((5, 0.1), (15, 0.15), (45, 0.05), (120, 0.12), (None, 0.08))
    ],
    "loads": [{"upto": n, "present": 0.4 - n / 10, "forecast": 0.3 - n / 20} for n in range(4)],
    "days": 28, "searches": 2896,
}  # fmt: skip
INSERTED = """INSERT INTO simulations (id, asked_by, asked_at, since_days, settings, extra_shifts, percent, ended_at, result)
  VALUES ($1, $2, $3, 28, $4, '{}', 100, $3, $5)"""


async def simulated(world: World, client: Device, **wanted: Any) -> dict[str, Any]:
    """Ask for a simulation, and return it when it has ended."""
    asked = await client.post(PATH, wanted)
    assert (asked["status"], asked["result"], asked["failure"]) == ("running", None, None)
    return await world.until(
        lambda: client.get(f"{PATH}/{asked['id']}"), lambda seen: seen["status"] != "running", timeout=120
    )


async def stored(world: World, settings: dict[str, int]) -> str:
    """Store a simulation that is done; return its id."""
    simulation_id, root = new_id(), await world.operator()
    values = json.dumps(settings), json.dumps(RESULT)
    await world.stack.sql(INSERTED, simulation_id, root.user["id"], await world.service_time(), *values)
    return simulation_id


async def saved_ten_days_ago(world: World, value: int, simulation_id: str) -> None:
    """Save a value of the row `blast_size` with its forecast, as if it had been ten days ago."""
    body = {"value": value, "simulation_id": simulation_id}
    await (await world.operator()).call("PATCH", "/internal/config/blast_size", body)
    async with world.stack.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            """UPDATE operator_audit_log SET created_at = created_at - interval '10 days'
               WHERE after ->> 'simulation_id' = $1""",
            simulation_id,
        )


@pytest.mark.slow
async def test_simulation_forecasts_a_change_and_leaves_the_setting(world: World) -> None:
    root = await world.operator()
    before = await root.get("/internal/config/blast_size")
    async with past_weeks(world.stack.transaction):
        done = await simulated(world, root, settings={"blast_size": 1}, extra_shifts=["2@fri/18:00-22:00"])
    assert (done["status"], done["percent"], done["failure"], done["details"]) == ("done", 100, None, None)
    assert (done["settings"], done["extra_shifts"]) == ({"blast_size": 1}, ["2@fri/18:00-22:00"])
    assert done["asked_by"] == {"id": root.user["id"], "display_name": "Root"}
    assert [row["figure"] for row in done["result"]["rows"]] == FIGURES
    assert all(row["low"] <= row["forecast"] <= row["high"] for row in done["result"]["rows"])
    assert {one["figure"] for one in done["result"]["back_test"]} >= {"unserved"}
    assert await root.get("/internal/config/blast_size") == before
    assert (await root.get(PATH))["items"][0] == {**done, "result": None}
    (row,) = await audits(world, done["id"])
    assert (row["action"], row["after"]["settings"]) == ("simulation.asked", {"blast_size": 1})


@pytest.mark.slow
async def test_two_simulations_at_once_are_one(world: World) -> None:
    root = await world.operator()
    async with past_weeks(world.stack.transaction):
        seen = await at_once(2, lambda _: root.post(PATH, {"settings": {"blast_size": 2}}))
        assert sorted(str(one[0]) for one in seen) == ["200", "409"], seen
        assert ("409", "SIMULATION_RUNNING") in {(str(status), body) for status, body in seen if status == 409}
        (running,) = [body["id"] for status, body in seen if status == 200]
        error = await refused(root.post(PATH, {"settings": {"blast_size": 3}}), 409, "SIMULATION_RUNNING")
        assert error["details"] == {"id": running}
        await world.until(
            lambda: root.get(f"{PATH}/{running}"), lambda one: one["status"] != "running", timeout=120
        )  # fmt: skip


async def test_too_little_history_is_refused_with_what_is_missing(world: World) -> None:
    root = await world.operator()
    wanted = {"settings": {"blast_size": 2}}
    others = (await refused(root.post(PATH, wanted), 422, "NOT_ENOUGH_HISTORY"))["details"]["searches"]
    async with past_weeks(world.stack.transaction, days=5):
        details = (await refused(root.post(PATH, wanted), 422, "NOT_ENOUGH_HISTORY"))["details"]
    assert [details[f"least_{name}"] for name in ("days", "searches", "answers")] == [14, 300, 500]
    assert details["days"] < 14
    assert details["searches"] == min(others + 5 * 21, 300)  # no more are counted than are needed


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({}, "settings"),
        ({"settings": {"no_such_row": 1}}, "settings"),
        ({"settings": {"extension_timeout_seconds": 60}}, "settings"),
        ({"settings": {"max_customers_per_mitra": 0}}, "value"),
        ({"settings": {"blast_size": "5"}}, "settings['blast_size']"),
        ({"extra_shifts": ["2@friday/18:00-22:00"]}, "extra_shifts"),
        ({"extra_shifts": ["2@fri/25:00-26:00"]}, "extra_shifts"),
        ({"since_days": 13, "settings": {"blast_size": 2}}, "since_days"),
        ({"since_days": 93, "settings": {"blast_size": 2}}, "since_days"),
    ],
)
async def test_what_cannot_be_tried_is_refused(world: World, wanted: dict[str, Any], field: str) -> None:
    error = await refused((await world.operator()).post(PATH, wanted), 422, "VALIDATION_ERROR")
    assert [one["field"] for one in error["details"]["fields"]] == [field]


async def test_simulations_need_the_area_of_settings(world: World) -> None:
    reader = (await an_operator(world, {"config": "read"})).client
    other = (await an_operator(world, {"payments": "write"})).client
    assert "items" in await reader.get(PATH)
    await refused(reader.post(PATH, {"settings": {"blast_size": 2}}), 403, "FORBIDDEN")
    for path in (PATH, CHANGES, f"{PATH}/{new_id()}"):
        await refused(other.get(path), 403, "FORBIDDEN")
    await refused(reader.get(f"{PATH}/{new_id()}"), 404, "NOT_FOUND")


async def test_setting_is_saved_with_its_forecast(world: World) -> None:
    root = await world.operator()
    value = (await root.get("/internal/config/blast_size"))["value"]
    simulation_id = await stored(world, {"blast_size": value + 1})
    async with world.setting(blast_size=value):
        for wrong in (new_id(), "yes", await stored(world, {"blast_size": value + 2})):
            body = {"value": value + 1, "simulation_id": wrong}
            error = await refused(root.call("PATCH", "/internal/config/blast_size", body), 422, "VALIDATION_ERROR")
            assert [one["field"] for one in error["details"]["fields"]] == ["simulation_id"]
        body = {"value": value + 1, "simulation_id": simulation_id}
        assert (await root.call("PATCH", "/internal/config/blast_size", body))["value"] == value + 1
        assert (await audits(world, "blast_size"))[-1]["after"] == {
            "value": value + 1, "simulation_id": simulation_id, "forecast": ROWS,
        }  # fmt: skip
        newest = (await root.get(CHANGES))["items"][0]
        assert (newest["key"], newest["before"], newest["after"]) == ("blast_size", value, value + 1)
        assert newest["simulation_id"] == simulation_id
        assert newest["forecast"] == [{**row, "happened": None} for row in ROWS]


async def test_saved_forecast_is_compared_a_week_later(world: World) -> None:
    root = await world.operator()
    value = (await root.get("/internal/config/blast_size"))["value"]
    simulation_id = await stored(world, {"blast_size": value + 1})
    async with world.setting(blast_size=value), past_weeks(world.stack.transaction):
        await saved_ten_days_ago(world, value + 1, simulation_id)
        found = (await root.get(CHANGES))["items"]
        (change,) = [one for one in found if one["simulation_id"] == simulation_id]
        happened = {one["figure"]: one["happened"] for one in change["forecast"]}
        assert 0.0 < happened["unserved"] < 0.3
        assert 4 < happened["wait_p50"] < happened["wait_p90"] < 50
        assert happened["phones_rung"] == 3.0
        assert happened["load"] is None


@pytest.mark.slow
async def test_changes_are_listed_if_what_happened_cannot_be_read_in_time(world: World) -> None:
    root = await world.operator()
    value = (await root.get("/internal/config/blast_size"))["value"]
    simulation_id = await stored(world, {"blast_size": value + 1})
    async with world.setting(blast_size=value):
        await saved_ten_days_ago(world, value + 1, simulation_id)
        async with world.stack.transaction() as holder:
            await holder.execute("LOCK TABLE chat_request_notifications IN ACCESS EXCLUSIVE MODE")
            found = (await root.get(CHANGES))["items"]
    (change,) = [one for one in found if one["simulation_id"] == simulation_id]
    assert [one["happened"] for one in change["forecast"]] == [None] * len(FIGURES)


async def test_change_of_another_setting_is_no_change_that_could_be_tried(world: World) -> None:
    root = await world.operator()
    async with world.setting(extension_timeout_seconds=61):
        pass
    assert "extension_timeout_seconds" not in {one["key"] for one in (await root.get(CHANGES))["items"]}
