"""A mitra who uses the app in a browser window."""

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

from playwright.async_api import Browser, Page, expect

from tests.pages.browser import PHONE, open_window
from tests.stack import World

DIGITS = "6-digit code"


async def sign_in(page: Page, world: World, phone: str) -> None:
    """Sign in with a code; the app has the number from its address."""
    async with page.expect_response(re.compile("/api/mitra/auth/otp/request$")) as asked:
        await page.get_by_role("button", name="Send the code").click()
    request_id = (await (await asked.value).json())["otp_request_id"]
    await page.get_by_label(DIGITS).fill(await world.stack.inbox.code_of(request_id))
    await expect(page.get_by_role("switch", name="Online")).to_be_visible()


@contextlib.asynccontextmanager
async def mitra_app(
    browser: Browser, world: World, name: str = "Ayu", *, online: bool = True, **options: Any
) -> AsyncIterator[Page]:
    """Open the app of a new mitra, signed in."""
    phone = await world.mitra_account(name)
    async with open_window(browser, world.stack.addresses.public, **{**PHONE, **options}) as window:
        window.page.set_default_timeout(20_000)
        await window.page.goto(f"{window.home}/try/mitra/?frame=test&lang=en&phone={phone}")
        await sign_in(window.page, world, phone)
        if online:
            await go_online(window.page)
        yield window.page


async def go_online(page: Page) -> None:
    await page.get_by_role("switch", name="Online").click()
    await expect(page.get_by_role("switch", name="Online")).to_be_checked()


async def accept(page: Page, name: str) -> None:
    """Accept the request of a customer; the chat opens."""
    await page.get_by_role("button", name=f"Accept: {name}").click()
    await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()


async def write(page: Page, text: str) -> None:
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")
