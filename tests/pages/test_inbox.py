"""The page of the development inbox: new items appear, filters work, and both languages and themes are accessible."""

import re
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from api.public.try_apps import FILES
from tests.pages.browser import DESK, PHONE, BrowserWindow, open_window
from tests.pages.test_pages import AXE, COLOURS, check_page_fits_window, no_violations
from tests.pages.test_words import STRING, arguments
from tests.stack import World

pytestmark = pytest.mark.anyio

SCRIPT = (FILES.path / "inbox" / "inbox.js").read_text()


async def ask_for_code(world: World, phone: str) -> str:
    """Ask for a customer's code and return it."""
    asked = await world.client().post("/api/client/auth/otp/request", {"phone": phone})
    return await world.stack.inbox.code_of(asked["otp_request_id"])


async def opened(window: BrowserWindow) -> None:
    await window.page.goto(f"{window.home}/dev/inbox")
    await expect(window.page.get_by_role("log")).to_be_attached()


async def test_new_items_appear_and_a_filter_shows_one_kind(browser: Browser, world: World) -> None:
    async with open_window(browser, world.stack.addresses.public) as window:
        await opened(window)
        code = await ask_for_code(world, "+6281234500003")
        item = window.page.get_by_role("listitem").filter(has_text="+6281234500003")
        await expect(item).to_contain_text(code)
        await item.get_by_text("Details").click()
        await expect(item).to_contain_text("ttl_seconds")
        payment = await world.request(await world.customer())
        link = window.page.get_by_role("link", name="Open the payment page").first
        await expect(link).to_have_attribute("href", f"/dev/pay/{payment['payment_request_id']}")
        await expect(item.locator("details")).to_have_attribute("open", "")  # new items leave others as they are
        await window.page.get_by_role("button", name="Invoices").click()
        await expect(item).to_have_count(0)
        await expect(link).to_be_visible()
        await window.page.get_by_role("button", name="Pushes").click()
        await expect(link).to_have_count(0)


@pytest.mark.parametrize("size", [DESK, PHONE])
async def test_inbox_is_accessible_in_both_languages(browser: Browser, world: World, size: dict[str, Any]) -> None:
    payment = await world.request(await world.customer())
    await world.webhook(payment, external_id="x" * 250)  # as long as a push token, which has no spaces either
    async with open_window(browser, world.stack.addresses.public, **size) as window:

        async def check(colours: str, where: str) -> None:
            for theme, options in (("light", AXE), ("dark", COLOURS)):
                await window.page.get_by_label(colours).select_option(theme)
                await expect(window.page.locator("html")).to_have_attribute("data-theme", theme)
                await no_violations(window, f"{where}, {theme}", options)
            await check_page_fits_window(window, where)

        await opened(window)
        await expect(window.page.get_by_role("listitem").first).to_be_visible()
        await check("Colours", "inbox")
        await window.page.get_by_label("Language").select_option("id")
        await expect(window.page.get_by_role("heading", name="Kotak masuk")).to_be_visible()
        assert await window.page.evaluate("document.documentElement.lang") == "id"
        await check("Warna", "inbox in Indonesian")


async def test_inbox_says_that_the_service_does_not_answer(browser: Browser, world: World) -> None:
    async with open_window(browser, world.stack.addresses.public) as window:
        await opened(window)
        await window.page.route("**/dev/inbox.json", lambda route: route.abort())
        await expect(window.page.get_by_role("status")).to_contain_text("The service does not answer.")
        await window.page.unroute("**/dev/inbox.json")
        await expect(window.page.get_by_role("status")).to_have_text("")
        window.troubles.clear()  # the browser logs the aborted request


def test_every_text_of_the_inbox_has_an_indonesian_one() -> None:
    entries = set(
        re.findall(rf"^  (?:{STRING}|(\w+)):", (FILES.path / "inbox" / "words.id.js").read_text(), re.MULTILINE)
    )
    known = {quoted or plain for quoted, plain in entries}
    tables = set(re.findall(r'"([A-Z][a-z ]+)", "[A-Z]', SCRIPT)) | set(re.findall(r'", "([A-Z][a-z ]+)", "', SCRIPT))
    said = arguments(SCRIPT) | tables | {"All", "system default", "light", "dark"}
    assert said == known
