"""The page of figures, and lists that are saved as CSV files, in a browser."""

import csv
import io
import pathlib
import re
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.http.operators.steps import PASSWORD, a_role, an_account, unique
from tests.http.pairing.steps import wait_for_invitation
from tests.pages.browser import BrowserWindow, open_window
from tests.pages.test_work import a_failure
from tests.stack import World, refused

pytestmark = pytest.mark.anyio


async def saved(window: BrowserWindow, button: Locator) -> tuple[str, list[list[str]]]:
    """Click a button that saves a file; return the file's name and cells."""
    async with window.page.expect_download() as waiting:
        await button.click()
    file = await waiting.value
    return file.suggested_filename, _cells(await file.path())


def _cells(path: pathlib.Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))


def rupiah(amount: int) -> str:
    """Return an amount as pages show it."""
    return f"Rp\u00a0{amount:,}".replace(",", ".")


async def test_figures_are_charts_and_tables_of_the_same_numbers(window: BrowserWindow, world: World) -> None:
    await world.session(await world.customer(), await world.mitra())
    await a_failure(world, "Dewi")
    found: dict[str, Any] = await (await world.operator()).get("/internal/figures")
    page = window.page
    await window.open("#/figures")
    await window.settled()
    sums = {name: sum(row[name] for row in found["items"]) for name in ("paid", "failed")}
    day = page.locator("section").filter(has=page.get_by_role("heading", name="By day"))
    await expect(day.get_by_role("img")).to_have_attribute("aria-label", f"Paid, By day: {rupiah(sums['paid'])}")
    await expect(day.locator("rect.value")).to_have_count(30)
    await expect(day.locator("rect.before")).to_have_count(30)
    await expect(page.get_by_role("img")).to_have_count(5)
    await expect(page.get_by_text("in the zone")).to_have_count(1)
    await day.get_by_text("All figures as a table").click()
    last = day.get_by_role("row").last
    await expect(last).to_contain_text(rupiah(found["items"][-1]["paid"]))
    await page.get_by_label("Figure", exact=True).select_option("failed")
    await page.get_by_role("button", name="Search").click()
    await expect(page.get_by_role("img").first).to_have_attribute(
        "aria-label", f"Failed, By day: {rupiah(sums['failed'])}"
    )
    causes = page.locator("section").filter(has=page.get_by_role("heading", name="By cause"))
    await expect(causes.get_by_role("img")).to_have_attribute(
        "aria-label", f"Failed, By cause: {rupiah(sums['failed'])}"
    )
    name, (header, *rows) = await saved(window, page.get_by_role("button", name="Download as CSV: By day"))
    assert (name, header[:2], len(rows)) == ("figures.csv", ["key", "paid"], 30)
    assert rows[-1][1] == str(found["items"][-1]["paid"])


async def test_list_is_saved_with_its_filters(window: BrowserWindow, world: World) -> None:
    await a_failure(world, "Wulan")
    await a_failure(world, "Dewi")
    await window.open("#/failed-pairings?q=Wulan")
    await window.settled()
    name, (header, *rows) = await saved(window, window.page.get_by_role("button", name="Download as CSV"))
    at = header.index("customer.display_name")
    assert name == "failed-pairings.csv"
    assert {row[at] for row in rows} == {"Wulan"}


async def test_refused_file_is_said(window: BrowserWindow, world: World) -> None:
    root = await world.operator()
    await window.open("#/audit-log")
    await window.settled()
    lease = f"file:{root.user['id'].replace('-', '')}"
    held = """INSERT INTO cluster_leases (name, holder, until_real_at)
      VALUES ($1, gen_random_uuid(), now() + $2 * interval '1 s')
      ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_real_at = excluded.until_real_at"""
    await world.stack.sql(held, lease, 3_600)
    try:
        await window.page.get_by_role("button", name="Download as CSV").click()
        await expect(window.page.locator(".toast")).to_be_visible()
    finally:
        await world.stack.sql(held, lease, -1)


async def test_activity_of_today_is_in_the_order_that_the_operator_chooses(window: BrowserWindow, world: World) -> None:
    page, root = window.page, await world.operator()
    winner, tried = await world.mitra(unique("Ayu")), await world.mitra(unique("Bima"))
    payment = await world.paid(await world.customer())
    for mitra in (winner, tried):
        await wait_for_invitation(world, mitra, payment["session_id"])
    accept = f"/api/mitra/chat-requests/{payment['session_id']}/accept"
    await winner.post(accept)
    await refused(tried.post(accept), 409, "REQUEST_TAKEN")
    await window.open("#/activity")
    today = page.get_by_role("link", name="today", exact=True)
    await today.click()
    await expect(today).to_have_attribute("aria-current", "true")
    await expect(page.get_by_label("From")).to_have_value(re.compile("T00:00$"))
    names = page.get_by_role("row").get_by_role("link")
    midnight = await page.evaluate("new Date(new Date().setHours(0, 0, 0, 0)).toISOString()")
    found = (await root.get("/internal/mitra-activity/summary", **{"from": midnight}))["items"]
    for order, field in (("Lost by", "lost"), ("Sessions", "sessions"), ("Earned", "earned_idr")):
        await page.get_by_label("Order, largest first").select_option(order)
        await page.get_by_role("button", name="Search").click()
        expected = sorted(found, key=lambda one, field=field: -one[field])
        await expect(names).to_have_text([one["mitra"]["display_name"] for one in expected])
    row = page.get_by_role("row").filter(has_text=tried.user["display_name"])
    await expect(row).to_contain_text(re.compile(r"1 . \d"))
    await expect(today).to_have_attribute("aria-current", "true")


async def test_operator_without_money_sees_the_other_sections(browser: Browser, world: World) -> None:
    root = await world.operator()
    account = await an_account(root, (await a_role(root, {"activity": "read"}))["id"])
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.open("#/figures")
        await window.sign_in(account["email"], PASSWORD)
        await expect(page.get_by_text("Your role doesn't allow you to see money.")).to_be_visible()
        sections = page.get_by_role("navigation", name="Figures")
        await expect(sections.get_by_role("link")).to_have_count(2)
        for name in ("Promises", "Unserved searches"):
            await sections.get_by_role("link", name=name).click()
            await expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
            await expect(page.get_by_role("link", name="Figures", exact=True)).to_have_attribute("aria-current", "page")
