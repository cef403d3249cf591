"""The page What if: a value is tried from the settings, simulated, saved with its forecast, and compared later."""

import re

import pytest
from playwright.async_api import expect

from tests.http.operators.past_weeks import past_weeks
from tests.http.operators.steps import audits
from tests.http.operators.test_simulations import saved_ten_days_ago, stored
from tests.pages.browser import BrowserWindow
from tests.pages.test_pages import check_page_fits_window, no_violations_in_both_themes
from tests.stack import World

pytestmark = pytest.mark.anyio

BACK_TEST = re.compile(r"Would have predicted last week: [\d.]+% unserved \([\d.]+% happened\)\.")


async def test_value_is_tried_from_the_settings_and_saved_with_its_forecast(
    window: BrowserWindow, world: World
) -> None:
    page, root = window.page, await world.operator()
    value = (await root.get("/internal/config/max_customers_per_mitra"))["value"]
    async with past_weeks(world.stack.transaction), world.setting(max_customers_per_mitra=value):
        await window.open("#/settings")
        setting = page.locator("[data-key=max_customers_per_mitra]")
        await setting.get_by_role("textbox").fill(str(value + 1))
        await setting.get_by_role("link", name="Try this value").click()
        exact = page.locator("input[name=max_customers_per_mitra]")
        slider = page.locator(".try").filter(has=exact).get_by_role("slider")
        await expect(exact).to_have_value(str(value + 1))
        await expect(slider).to_have_value(str(value + 1))
        await slider.fill(str(value + 2))
        await expect(exact).to_have_value(str(value + 2))
        await page.get_by_role("button", name="Simulate").click()
        await expect(page.get_by_role("progressbar")).to_be_visible()
        await expect(page.get_by_text(BACK_TEST)).to_be_visible(timeout=120_000)
        await expect(page.get_by_role("img")).to_have_count(3)
        await page.get_by_role("button", name="Save with the forecast…").click()
        await page.get_by_role("dialog").get_by_role("button", name="Save").click()
        await expect(page.get_by_text("Saved with this forecast.")).to_be_visible()
        assert (await root.get("/internal/config/max_customers_per_mitra"))["value"] == value + 2
        after = (await audits(world, "max_customers_per_mitra"))[-1]["after"]
        assert f"id={after['simulation_id']}" in page.url
        assert after["forecast"][0]["figure"] == "unserved"
        came = page.get_by_role("article", name=f"{value} sessions → {value + 2} sessions")
        await expect(came.get_by_role("row").filter(has_text="Unserved searches")).to_contain_text("not yet known")


async def test_settings_that_a_refusal_left_unsaved_are_saved_later(window: BrowserWindow, world: World) -> None:
    page, root = window.page, await world.operator()
    keys = ("blast_size", "max_customers_per_mitra")
    values = {key: (await root.get(f"/internal/config/{key}"))["value"] for key in keys}
    wanted = {key: value + 1 for key, value in values.items()}
    simulation_id = await stored(world, wanted)
    async with world.setting(**values):
        body = {"value": wanted["blast_size"], "simulation_id": simulation_id}
        await root.call("PATCH", "/internal/config/blast_size", body)
        await window.open(f"#/settings/what-if?id={simulation_id}")
        await page.get_by_role("button", name="Save with the forecast…").click()
        await page.get_by_role("dialog").get_by_role("button", name="Save").click()
        await expect(page.get_by_text("Saved with this forecast.")).to_be_visible()
        assert {key: (await root.get(f"/internal/config/{key}"))["value"] for key in keys} == wanted


async def test_too_little_history_is_said_at_the_form(window: BrowserWindow, world: World) -> None:
    page = window.page
    await window.open("#/settings/what-if?key=blast_size&value=5")
    await window.settled()
    await page.get_by_role("button", name="Simulate").click()
    await expect(page.get_by_role("form").get_by_role("alert")).to_contain_text("300 searches")


async def test_shifts_are_tried_without_a_setting(window: BrowserWindow, world: World) -> None:
    page = window.page
    async with past_weeks(world.stack.transaction):
        await window.open("#/settings/what-if")
        await window.settled()
        await page.get_by_role("button", name="Another shift").click()
        await page.get_by_label("Mitras", exact=True).nth(0).fill("2")
        await page.get_by_label("Mitras", exact=True).nth(1).fill("1")
        await page.get_by_label("Day", exact=True).nth(1).select_option("sat")
        await page.get_by_role("button", name="Simulate").click()
        words = "2@fri/18:00-22:00; 1@sat/18:00-22:00"
        await expect(page.get_by_role("heading", name=words)).to_be_visible()
        await expect(page.get_by_text(BACK_TEST)).to_be_visible(timeout=120_000)
        await expect(page.get_by_role("button", name="Save with the forecast…")).to_have_count(0)


async def test_running_simulation_is_shown_instead_of_a_second_one(window: BrowserWindow, world: World) -> None:
    page, root = window.page, await world.operator()
    async with past_weeks(world.stack.transaction):
        await window.open("#/settings/what-if?key=blast_size&value=5")
        await window.settled()
        running = await root.post("/internal/simulations", {"settings": {"blast_size": 3}})
        await page.get_by_role("button", name="Simulate").click()
        await expect(page).to_have_url(re.compile(running["id"]))
        await expect(page.get_by_text(BACK_TEST)).to_be_visible(timeout=120_000)


async def test_forecast_that_missed_is_marked_a_week_later(window: BrowserWindow, world: World) -> None:
    page = window.page
    value = (await (await world.operator()).get("/internal/config/blast_size"))["value"]
    simulation_id = await stored(world, {"blast_size": value + 1})
    async with world.setting(blast_size=value), past_weeks(world.stack.transaction):
        await saved_ten_days_ago(world, value + 2, await stored(world, {"blast_size": value + 2}))
        await saved_ten_days_ago(world, value + 1, simulation_id)
        await window.open("#/settings/what-if")
        await window.settled()
        came = page.get_by_role("article").filter(has=page.locator(f"h3 a[href*='{simulation_id}']"))
        waits = came.get_by_role("row").filter(has_text="Half of the customers wait at most")
        await expect(waits).to_contain_text("13 s")
        await expect(waits).to_contain_text("outside the interval")
        await no_violations_in_both_themes(window, "what came of it")
        await check_page_fits_window(window, "what came of it")


async def test_changes_of_settings_are_marks_of_the_figures(window: BrowserWindow, world: World) -> None:
    page = window.page
    value = (await (await world.operator()).get("/internal/config/blast_size"))["value"]
    simulation_id = await stored(world, {"blast_size": value + 1})
    async with world.setting(blast_size=value):
        body = {"value": value + 1, "simulation_id": simulation_id}
        await (await world.operator()).call("PATCH", "/internal/config/blast_size", body)
        await window.open("#/figures")
        await window.settled()
        day = page.locator("section").filter(has=page.get_by_role("heading", name="By day"))
        await expect(day.locator("line.mark").last).to_be_attached()
        await expect(day.get_by_role("listitem").last).to_contain_text(f"{value} → {value + 1}")
        await no_violations_in_both_themes(window, "figures with marks")
