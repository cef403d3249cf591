"""A Chromium browser of this machine, and an operator who uses it."""

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright, expect

# The headless shell, without the rest of a browser, needs less than half the CPU to open a window.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SKIPPED = (
    "Chromium is not installed, so the pages were not tested in a browser (Debian: apt-get install "
    "chromium-headless-shell)"
)
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
ARGUMENTS = [
    # Chromium's sandbox needs a separate user; the browser opens only our own service.
    "--no-sandbox",
    # Otherwise each window loads two pages of the address bar, which cost more than ours.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
]
WAIT_MS = 20_000
# Refused requests, and attempts to connect after a test has taken the network away. The page shows both, and the tests
# check that.
LOGGED_BY_BROWSER = ("the server responded with a status of", "net::ERR_INTERNET_DISCONNECTED")


def chromium() -> str | None:
    """Return the path of Chromium, or None if it is not installed. If CHROMIUM is set, that path must exist."""
    named = os.environ.get("CHROMIUM")
    found = [found for name in ((named,) if named else NAMES) if (found := shutil.which(name))]
    if named and not found:
        pytest.fail(f"CHROMIUM is {named}, and there is no such program")
    return found[0] if found else None


@contextlib.asynccontextmanager
async def launched(program: str) -> AsyncIterator[Browser]:
    """Start a headless browser."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


class BrowserWindow:
    """An operator's browser window: a page, and the errors that occurred in it."""

    def __init__(self, context: BrowserContext, page: Page, home: str) -> None:
        self.context = context
        self.page = page
        self.home = home
        self.troubles: list[str] = []
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("console", self._heard)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(text in message.text for text in LOGGED_BY_BROWSER):
            self.troubles.append(message.text)

    async def open(self, address: str = "#/") -> None:
        """Go to an address of the control center.

        The content shown before is marked, because it may stay for a moment.
        """
        await self.page.evaluate("document.querySelector('main > *')?.setAttribute('data-before', '')")
        await self.page.goto(f"{self.home}/internal/{address}")

    async def sign_in(self, email: str, password: str) -> None:
        """Sign in by the form."""
        await self.page.get_by_label("E-mail").fill(email)
        await self.page.get_by_label("Password", exact=True).fill(password)
        await self.page.get_by_role("button", name="Sign in").click()
        await expect(self.page.get_by_role("navigation", name="Menu")).to_be_attached()

    async def signed_in(self, client: Any) -> None:
        """Continue with the tokens of a signed-in client, as a reloaded tab does."""
        tokens = f'{{"access":"{client.access_token}","refresh":"{client.refresh_token}"}}'
        await self.open("static/icon.svg")  # the same origin, but not a page of the application
        await self.page.evaluate("tokens => sessionStorage.setItem('sesi.tokens', tokens)", tokens)

    async def settled(self) -> None:
        """Wait until the page of the address is shown and has finished loading."""
        await expect(self.page.locator("[data-before]")).to_have_count(0)
        await expect(self.page.locator(".page-body").first).to_be_visible()
        await expect(self.page.locator("[aria-busy]")).to_have_count(0)
        await expect(self.page.locator(".loading")).to_have_count(0)


@contextlib.asynccontextmanager
async def open_window(browser: Browser, home: str, **options: Any) -> AsyncIterator[BrowserWindow]:
    """Open an operator's window. When it closes, every error must have been shown by a page."""
    expect.set_options(timeout=WAIT_MS)
    context = await browser.new_context(**{**DESK, "locale": "en-GB", "timezone_id": "Asia/Jakarta", **options})
    context.set_default_timeout(WAIT_MS)
    try:
        made = BrowserWindow(context, await context.new_page(), home)
        yield made
        assert made.troubles == [], made.troubles
    finally:
        await context.close()
