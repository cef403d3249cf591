"""A person's case in a browser: the search of every page, the page of a customer or mitra, and the acts on them."""

import re

import pytest
from playwright.async_api import expect

from tests.http.operators.steps import unique
from tests.pages.browser import BrowserWindow
from tests.pages.test_work import FAILURES, a_failure
from tests.stack import World

pytestmark = pytest.mark.anyio

SEARCH = "Find anything"


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
