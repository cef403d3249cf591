"""The development payment page: alone, in a frame and in a window of the apps, in both languages and themes."""

from typing import Any

import pytest
from playwright.async_api import Browser, FrameLocator, Page, expect

from tests.pages.browser import PHONE, open_window
from tests.pages.test_pages import AXE, check_page_fits_window, no_violations
from tests.stack import World

pytestmark = pytest.mark.anyio

# Collects the messages about payments that the page receives.
LISTEN = """() => {
  window.received = [];
  addEventListener("message", (event) => received.push([event.origin === location.origin, event.data]));
}"""
FRAME = """(source) => {
  const frame = document.createElement("iframe");
  frame.src = source;
  frame.title = "Payment";
  document.body.append(frame);
}"""


async def payment_path(world: World) -> tuple[str, str]:
    """Return the id of a new payment request and the path of its page."""
    payment = await world.request(await world.customer())
    return payment["payment_request_id"], f"/dev/pay/{payment['payment_request_id']}"


async def pay(view: Page | FrameLocator) -> None:
    """Pay on the page."""
    await view.get_by_role("button", name="Pay").click()
    await expect(view.get_by_role("status")).to_have_text("paid")


async def test_page_in_a_frame_reports_the_payment_to_the_app(browser: Browser, world: World) -> None:
    payment_id, path = await payment_path(world)
    async with open_window(browser, world.stack.addresses.public) as window:
        await window.page.goto(f"{window.home}/dev/inbox")
        await window.page.evaluate(LISTEN)
        await window.page.evaluate(FRAME, path)
        await pay(window.page.frame_locator("iframe"))
        await world.until(lambda: window.page.evaluate("received.length"), bool)
        said = {"type": "payment", "payment_request_id": payment_id, "status": "confirmed"}
        assert await window.page.evaluate("received") == [[True, said]]


async def test_page_in_a_window_reports_the_payment_to_its_opener(browser: Browser, world: World) -> None:
    payment_id, path = await payment_path(world)
    async with open_window(browser, world.stack.addresses.public) as window:
        await window.page.goto(f"{window.home}/dev/inbox")
        await window.page.evaluate(LISTEN)
        async with window.page.expect_popup() as opening:
            await window.page.evaluate("path => { open(path); }", path)
        await pay(await opening.value)
        await world.until(lambda: window.page.evaluate("received.length"), bool)
        assert (await window.page.evaluate("received"))[0][1]["payment_request_id"] == payment_id


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_page_alone_is_accessible_in_both_languages(browser: Browser, world: World, theme: str) -> None:
    _, path = await payment_path(world)
    async with open_window(browser, world.stack.addresses.public, **PHONE) as window:
        await window.page.goto(f"{window.home}{path}?lang=id&theme={theme}")
        await expect(window.page.get_by_role("button", name="Bayar")).to_be_visible()
        await expect(window.page.get_by_role("heading")).to_have_text("Rp 12.000")
        root: Any = await window.page.evaluate(
            "({...document.documentElement.dataset, lang: document.documentElement.lang})"
        )
        assert root == {"theme": theme, "lang": "id"}
        await no_violations(window, "payment page", AXE)
        await check_page_fits_window(window, "payment page")
        await window.page.goto(f"{window.home}{path}")
        await pay(window.page)
        await no_violations(window, "paid", AXE)
