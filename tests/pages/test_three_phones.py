"""The page with three phones: the apps in frames, codes, language and theme for all, and forgetting a phone."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.pages.browser import PHONE, BrowserWindow, open_window
from tests.pages.mitra_app import sign_in
from tests.pages.test_pages import AXE, check_page_fits_window, no_violations, no_violations_in_both_themes
from tests.stack import World

pytestmark = pytest.mark.anyio

WIDE: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
MITRA = "/try/mitra/?frame=m1"


@pytest.fixture
async def window(browser: Browser, world: World) -> AsyncIterator[BrowserWindow]:
    """Open the page on a wide screen."""
    async with open_window(browser, world.stack.addresses.public, **WIDE) as made:
        await made.page.goto(f"{made.home}/try/?lang=en")
        await apps_shown(made.page)
        yield made


async def apps_shown(page: Page, customer: str = "Customer") -> None:
    """Wait until all apps have loaded. `customer` is the first phone's title in the page's language."""
    for title in (customer, "Mitra 1", "Mitra 2"):
        await expect(page.frame_locator(f"iframe[title='{title}']").get_by_role("button").first).to_be_visible()


async def test_page_shows_three_apps_the_time_scale_and_the_newest_code(window: BrowserWindow, world: World) -> None:
    page = window.page
    await expect(page.get_by_role("timer", name="The service's clock")).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
    await expect(page.get_by_text("Real time")).to_be_visible()
    asked = await world.client().post("/api/client/auth/otp/request", {"phone": "+6281234500017"})
    code = await world.stack.inbox.code_of(asked["otp_request_id"])
    entry = page.get_by_role("list", name="Newest codes").get_by_role("listitem").filter(has_text="+6281234500017")
    await expect(entry).to_contain_text(code)
    await expect(page.get_by_role("link", name="Inbox")).to_have_attribute("href", "/dev/inbox")


async def test_language_and_theme_are_set_on_all_phones(window: BrowserWindow) -> None:
    page = window.page
    await page.get_by_role("button", name="Bahasa Indonesia").click()
    await apps_shown(page, "Pelanggan")
    for theme in ("light", "dark"):
        await page.get_by_role("button", name=re.compile("^Warna: ")).click()
        await expect(page.locator("html")).to_have_attribute("data-theme", theme)
        await apps_shown(page, "Pelanggan")
    for title in ("Pelanggan", "Mitra 1"):
        root = page.frame_locator(f"iframe[title='{title}']").locator("html")
        await expect(root).to_have_attribute("lang", "id")
        await expect(root).to_have_attribute("data-theme", "dark")


@contextlib.asynccontextmanager
async def half_answers() -> AsyncIterator[str]:
    """Serve answers that stop within the body, after more bytes than a browser holds back; yield the address."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head.ljust(10_000))
        await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


async def test_language_changes_while_the_codes_are_read(window: BrowserWindow) -> None:
    page = window.page
    async with half_answers() as address:
        await page.route("**/dev/inbox.json", lambda route: route.continue_(url=address))
        async with page.expect_response(address):
            pass
        await page.get_by_role("button", name="Bahasa Indonesia").click()
        await apps_shown(page, "Pelanggan")


async def test_forgotten_phone_is_signed_out_and_another_is_not(browser: Browser, world: World) -> None:
    async with open_window(browser, world.stack.addresses.public, **WIDE) as window:
        page = window.page
        for frame in ("m1", "m2"):
            phone = await world.mitra_account("Ayu")
            await page.goto(f"{window.home}/try/mitra/?frame={frame}&lang=en&phone={phone}")
            await sign_in(page, world, phone)
        await page.goto(f"{window.home}/try/?lang=en")
        first, second = (page.frame_locator(f"iframe[title='Mitra {n}']") for n in (1, 2))
        await expect(first.get_by_role("switch", name="Online")).to_be_visible()
        await page.get_by_role("region", name="Mitra 1").get_by_role("button", name="Forget").click()
        await page.get_by_role("dialog").get_by_role("button", name="Forget").click()
        await expect(first.get_by_role("button", name="Send the code")).to_be_visible()
        await page.reload()
        await expect(first.get_by_role("button", name="Send the code")).to_be_visible()
        await expect(second.get_by_role("switch", name="Online")).to_be_visible()


async def test_narrow_screen_links_to_the_apps(browser: Browser, world: World) -> None:
    async with open_window(browser, world.stack.addresses.public, **PHONE) as window:
        await window.page.goto(f"{window.home}/try/?lang=en")
        await expect(window.page.get_by_role("link", name="Mitra 1")).to_have_attribute("href", MITRA)
        await expect(window.page.locator("iframe")).to_have_count(0)
        await no_violations(window, "narrow", AXE)
        await check_page_fits_window(window, "narrow")


async def test_page_is_accessible_wide_and_narrow(window: BrowserWindow) -> None:
    page = window.page
    await page.get_by_text("What to do here").click()
    await no_violations_in_both_themes(window, "three phones")
    await check_page_fits_window(window, "three phones")
    await page.set_viewport_size({"width": 390, "height": 844})
    await expect(page.get_by_role("link", name="Customer")).to_be_visible()
    await no_violations_in_both_themes(window, "links to the apps")
