"""The page of the development identity provider in a browser: it hands the token to the app that opened it."""

from collections.abc import Iterator

import attrs
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from tests.http.sign_in.outside import Server
from tests.http.sign_in.people import another_api, end_api
from tests.stack import Stack

pytestmark = pytest.mark.anyio

LISTEN = """() => { window.received = []; window.addEventListener('message', (event) =>
window.received.push({ origin: event.origin, ...event.data })); }"""


class AppServer(Server):
    """A server of another origin, with an empty page."""

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, dict[str, str]] | None:
        """Answer with the page."""
        return 200, b"<!doctype html><html lang='en'><title>App</title></html>", {"Content-Type": "text/html"}


@attrs.frozen
class Origins:
    """The origins of an app and of the service."""

    app: str
    base: str


@pytest.fixture(scope="module")
def origins(stack: Stack) -> Iterator[Origins]:
    """Run an app of another origin, and an api process in development that knows this origin."""
    app = AppServer()
    base = another_api(stack, "development", DEVELOPMENT_IDENTITIES="true", PUBLIC_CORS_ORIGINS=app.url)
    yield Origins(app.url, base)
    end_api(stack, "development")
    app.close()


async def opened(browser: Browser, origins: Origins) -> Page:
    """Open the app's page, which listens for messages."""
    page = await browser.new_page()
    await page.goto(origins.app)
    await page.evaluate(LISTEN)
    return page


async def test_popup_hands_the_token_to_the_app_and_closes(browser: Browser, origins: Origins) -> None:
    page = await opened(browser, origins)
    async with page.expect_popup() as opening:
        await page.evaluate("(url) => window.open(url)", f"{origins.base}/dev/identity-b?origin={origins.app}&nonce=n1")
    popup = await opening.value
    found = (await Axe().run(popup)).response["violations"]
    assert found == []
    async with popup.expect_event("close"):
        await popup.get_by_role("button", name="dewi@example.test").click()
    await page.wait_for_function("window.received.length")
    (message,) = await page.evaluate("window.received")
    assert (message["origin"], message["type"], message["provider"]) == (origins.base, "identity", "b")
    assert message["identity_token"].count(".") == 2
    await page.close()


async def test_frame_hands_the_token_to_the_app(browser: Browser, origins: Origins) -> None:
    page = await opened(browser, origins)
    await page.evaluate(
        "(url) => { const frame = document.createElement('iframe'); frame.src = url; document.body.append(frame); }",
        f"{origins.base}/dev/identity-a?origin={origins.app}",
    )
    frame = page.frame_locator("iframe")
    await frame.get_by_label("Another e-mail address").fill("eka@example.test")
    await frame.get_by_role("button", name="Sign in").click()
    await page.wait_for_function("window.received.length")
    (message,) = await page.evaluate("window.received")
    assert (message["origin"], message["provider"]) == (origins.base, "a")
    await page.close()


async def test_page_has_the_language_and_theme_of_the_app(browser: Browser, origins: Origins) -> None:
    page = await browser.new_page()
    await page.goto(f"{origins.base}/dev/identity-a?lang=id&theme=dark")
    dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    await page.get_by_label("Alamat surel lain").fill("eka@example.test")
    await page.get_by_role("button", name="Masuk").click()
    await expect(page.get_by_role("status")).to_have_text("Masuk sebagai eka@example.test.")
    assert await page.locator("html").get_attribute("lang") == "id"
    await page.goto(f"{origins.base}/dev/identity-a?theme=light")
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    await page.close()


async def test_token_is_not_posted_to_a_page_of_another_origin(browser: Browser, origins: Origins) -> None:
    page = await opened(browser, origins)
    async with page.expect_popup() as opening:
        await page.evaluate("(url) => window.open(url)", f"{origins.base}/dev/identity-a?origin={origins.base}")
    popup = await opening.value
    async with popup.expect_event("close"):
        await popup.get_by_role("button", name="dewi@example.test").click()
    assert await page.evaluate("window.received") == []
    await page.close()
