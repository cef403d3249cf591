"""A person's case in a browser: the search of every page, the page of a customer or mitra, and the acts on them."""

import re

import pytest
from playwright.async_api import Browser, expect

from tests.http.operators.steps import an_operator, unique
from tests.pages.browser import PHONE, BrowserWindow, open_window
from tests.pages.test_pages import check_page_fits_window, no_violations, no_violations_in_both_themes
from tests.pages.test_work import FAILURES, a_failure
from tests.stack import World, new_id

pytestmark = pytest.mark.anyio

SEARCH = "Find anything"


# -- the search


async def test_search_opens_by_its_key_and_is_used_without_a_mouse(window: BrowserWindow, world: World) -> None:
    page, name = window.page, unique("Melati")
    await world.mitra(name, online=False)
    customer = await world.customer(name)
    pending = await world.request(customer)
    await window.open("#/mitras")
    await window.settled()
    await page.evaluate("document.seen = true")  # is lost if the page is loaded again
    await page.get_by_role("link", name="All mitras").or_(page.get_by_role("link", name="Payments")).first.focus()
    await page.keyboard.press("/")
    dialog = page.get_by_role("dialog", name=SEARCH)
    await expect(dialog.get_by_label("Search for")).to_be_focused()
    await page.keyboard.type(f"{name}/")  # the key is a letter here
    await page.keyboard.press("Backspace")
    await page.keyboard.press("Enter")
    for kind in ("Customers", "Mitras", "Payments"):
        await expect(dialog.get_by_role("region", name=kind).get_by_role("link")).to_have_count(1)
    await expect(dialog.get_by_role("region", name="Failed pairings")).to_have_count(0)
    await no_violations_in_both_themes(window, "search")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(dialog.get_by_role("region", name="Mitras").get_by_role("link")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")  # stays at the last one
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(f"#/payments/{pending['payment_request_id']}$"))
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("heading", name="Payment", exact=True)).to_be_focused()
    await page.keyboard.press("/")
    await page.keyboard.type(name)
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("link")).not_to_have_count(0)
    await page.keyboard.press("Enter")  # opens the first result
    await expect(page.get_by_role("heading", name=name)).to_be_focused()
    assert await page.evaluate("document.seen") is True


async def test_closed_search_returns_the_focus_and_its_key_can_be_switched_off(window: BrowserWindow) -> None:
    page = window.page
    await window.open("#/payments")
    await window.settled()
    field = page.get_by_label("Name or id")
    link = page.get_by_role("link", name="Webhook log")
    await link.focus()
    await page.keyboard.press("/")
    dialog = page.get_by_role("dialog", name=SEARCH)
    await page.keyboard.type("no such name or id")
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_text("Nothing found.")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(link).to_be_focused()
    await field.focus()
    await page.keyboard.press("/")
    await expect(field).to_have_value("/")
    await expect(dialog).to_have_count(0)
    await page.evaluate("localStorage.setItem('sesi.preferences', JSON.stringify({ shortcuts: false }))")
    await link.focus()
    await page.keyboard.press("/")
    await expect(dialog).to_have_count(0)
    button = page.get_by_role("button", name=SEARCH)
    await button.click()
    await page.keyboard.press("Escape")
    await expect(button).to_be_focused()


async def test_search_names_what_a_role_does_not_see_and_says_when_look_ups_are_used_up(
    browser: Browser, world: World
) -> None:
    clerk = await an_operator(world, {"customers": "read", "payments": "read"})
    number = f"+62812{new_id()[-8:].translate(str.maketrans('abcdef', '123456'))}"
    async with open_window(browser, world.stack.addresses.internal, **PHONE) as window:
        page = window.page
        await window.signed_in(clerk.client)
        await window.open("#/customers")
        await window.settled()
        await page.get_by_role("button", name=SEARCH).click()
        dialog = page.get_by_role("dialog", name=SEARCH)
        await expect(dialog.get_by_text("or a whole phone number (30 an hour)")).to_be_visible()
        await dialog.get_by_label("Search for").fill(number)
        await dialog.get_by_role("button", name="Search").click()
        hidden = "Your role doesn't see: Mitras, Failed pairings, Sessions, Webhook calls."
        await expect(dialog.get_by_text(hidden)).to_be_visible()
        for _ in range(29):
            await clerk.client.get("/internal/customers", q=number)
        await dialog.get_by_role("button", name="Search").click()
        await expect(dialog.get_by_text("You have looked up 30 phone numbers within an hour.")).to_be_visible()
        await no_violations(window, "used up")
        await check_page_fits_window(window, "search")


# -- payments and their refunds


async def test_payment_failure_and_refund_lead_to_each_other(window: BrowserWindow, world: World) -> None:
    page, failure = window.page, await a_failure(world, name := unique("Zahra"))
    payment = failure["payment_request_id"]
    await window.open("#/payments")
    await window.settled()
    await page.get_by_label("Name or id").fill(name)
    await page.get_by_label("Refunds").select_option("to refund")
    await page.get_by_role("button", name="Search").click()
    row = page.get_by_role("row").filter(has_text=name)
    await expect(row.get_by_text("to refund")).to_be_visible()
    await row.get_by_role("link").first.click()
    await page.get_by_role("link", name="What to do about it").click()
    await expect(page).to_have_url(re.compile(f"#/failed-pairings/{failure['id']}$"))
    await page.get_by_role("link", name=payment).click()
    await expect(page.locator(".facts").get_by_text("to refund")).to_be_visible()
    root = await world.operator()
    await root.post(f"{FAILURES}/{failure['id']}/refund", {})
    await window.open(f"#/payments?q={payment}&refund=refunding")
    await expect(page.get_by_role("row").filter(has_text=name).get_by_text("refunding")).to_be_visible()
    await world.stack.sql("UPDATE refunds SET ask_at = requested_at WHERE failure_id = $1::uuid", failure["id"])
    await world.until(lambda: root.get(f"{FAILURES}/{failure['id']}"), lambda one: one["operator_action"])
    await window.open(f"#/payments?q={payment}&refund=refunded")
    await expect(page.get_by_role("row").filter(has_text=name).get_by_text("refunded")).to_be_visible()
    await window.open(f"#/payments/{payment}")
    (given,) = (await root.get("/internal/payment-requests", q=payment))["items"]
    facts = page.locator(".facts")
    await expect(facts.get_by_text(given["refund_reference"], exact=True)).to_be_visible()
    await expect(facts.get_by_text(given["gateway_refund_id"], exact=True)).to_be_visible()
