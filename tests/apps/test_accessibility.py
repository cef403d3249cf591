"""Every screen of both apps, and the identity provider's page, are accessible in light and in dark, and fit a phone."""

import asyncio

import pytest
from playwright.async_api import Browser, expect

from tests.apps.people import NUMBERS, App, CustomerApp, customer_app, mitra_account, mitra_app
from tests.http.sign_in.people import another_api, end_api
from tests.http.sign_in.test_development_identity import NO_PROVIDER
from tests.pages.browser import BrowserWindow, open_window
from tests.pages.test_pages import check_page_fits_window, no_violations_in_both_themes
from tests.stack import World

pytestmark = pytest.mark.anyio


class Inspector:
    """Checks what an app shows."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.window = BrowserWindow(app.page.context, app.page, "")

    async def __call__(self, what: str) -> None:
        """Check the screen that is shown, in both themes."""
        await no_violations_in_both_themes(self.window, what)
        await check_page_fits_window(self.window, what)


async def look_at_first_screens(see: Inspector, dewi: CustomerApp) -> None:
    """Look at all screens from the introduction to the payment."""
    await dewi.open("customer/?lang=en")
    await dewi.sees_heading("Someone is here for you")
    await see("introduction")
    await dewi.press("Skip")
    await dewi.sees_heading("What is on your mind?")
    await see("topics")
    await dewi.choose_topics("Family", "Work")
    await see("sign-in")
    await dewi.page.get_by_role("link", name="Continue with your phone").click()
    await see("phone number")
    await dewi.ask_for_code(NUMBERS[20])
    await see("code")
    await dewi.type_code("135790")
    await expect(dewi.page.get_by_text("The code is not right")).to_be_visible()
    await see("wrong code")
    await dewi.press("Use another number")
    await dewi.press("Send the code")
    await expect(dewi.page.get_by_role("dialog", name="Sign-in by code is paused")).to_be_visible()
    await see("blocked code")
    await dewi.press("Continue without an account")
    await dewi.sees_heading("What should we call you?")
    await see("name")
    await dewi.choose_name("Dewi")
    await expect(dewi.page.get_by_role("radio").first).to_be_visible()
    await see("prices")


async def look_at_other_screens(see: Inspector, app: App, addresses: dict[str, str]) -> None:
    """Look at screens that have addresses."""
    for what, address in addresses.items():
        await app.page.goto(app.page.url.split("#")[0] + address)
        await expect(app.page.get_by_text("Loading", exact=True)).to_have_count(0)
        await see(what)


@pytest.mark.timeout(240)
async def test_every_screen_of_both_apps_is_accessible(browser: Browser, world: World) -> None:
    number = NUMBERS[5]
    await mitra_account(world, "Ayu", number)
    async with customer_app(browser, world) as dewi, mitra_app(browser, world) as ayu:
        see, see_mitra = Inspector(dewi), Inspector(ayu)
        await look_at_first_screens(see, dewi)
        await ayu.open(f"mitra/?lang=en&phone={number.replace('+', '%2B')}")
        await expect(ayu.page.get_by_role("button", name="Send the code")).to_be_visible()
        await see_mitra("mitra's sign-in")
        await ayu.press("Send the code")
        await ayu.type_code()
        await see_mitra("desk, offline")
        await ayu.go_online()
        await dewi.choose_minutes(12)
        await expect(dewi.page.get_by_role("dialog")).to_be_visible()
        await see("payment page")
        await dewi.press("Close")
        await see("waiting for the payment")
        await dewi.press("Open the payment page")
        await dewi.pay()
        await expect(dewi.page.get_by_role("dialog")).to_have_count(0)
        await expect(ayu.page.get_by_role("button", name="Accept: Dewi")).to_be_visible()
        await asyncio.gather(see("search"), see_mitra("chat request"))
        await ayu.accept("Dewi")
        await dewi.write("Halo Kak, aku butuh teman bicara.")
        await expect(ayu.message("Halo Kak")).to_be_visible()
        await ayu.write("Halo Dewi, aku di sini.")
        await expect(dewi.message("Halo Dewi")).to_be_visible()
        await asyncio.gather(see("chat"), see_mitra("mitra's chat"))
        await dewi.press("More")
        await see("menu of the chat")
        await dewi.press("More time")
        await expect(dewi.page.get_by_role("dialog", name="More time").get_by_role("radio").first).to_be_visible()
        await see("prices of more time")
        await dewi.press("Close", within=dewi.page.get_by_role("dialog", name="More time"))
        await ayu.press("More")
        await ayu.press("Mark as sensitive")
        await see_mitra("question about the mark")
        await ayu.press("Cancel")
        (session,) = await world.stack.sql(
            "SELECT id::text FROM chat_sessions WHERE status = 'active' ORDER BY id DESC LIMIT 1"
        )
        operator = await world.operator()
        await operator.post(f"/internal/sessions/{session['id']}/end", {"reason": "end of the test"})
        await expect(ayu.page.get_by_label("Your goodbye to Dewi")).to_be_visible()
        await expect(dewi.page.get_by_label("Your goodbye to Ayu")).to_be_visible()
        await asyncio.gather(see("frozen chat"), see_mitra("mitra's frozen chat"))
        await dewi.say_goodbye("Terima kasih, Kak Ayu.")
        await see("own goodbye")
        await ayu.say_goodbye("Sama-sama, Dewi.")
        await expect(dewi.page.get_by_text("Sama-sama, Dewi.")).to_be_visible()
        await asyncio.gather(see("goodbyes"), see_mitra("mitra's goodbyes"))
        pages = {"home": "#/", "history": "#/history", "profile": "#/profile", "devices": "#/devices"}
        mitra_pages = {"desk": "#/", "history": "#/history", "account": "#/account", "devices": "#/devices"}
        await asyncio.gather(
            look_at_other_screens(see, dewi, {**pages, "payments": "#/payments", "missing": "#/nowhere"}),
            look_at_other_screens(see_mitra, ayu, mitra_pages),
        )


async def test_page_of_the_identity_provider_is_accessible(browser: Browser, world: World) -> None:
    base = another_api(world.stack, "development", DEVELOPMENT_IDENTITIES="true", **NO_PROVIDER)
    try:
        async with open_window(browser, base) as window:
            answer = await window.page.goto(f"{base}/dev/identity-a?origin={base}&nonce=n")
            assert answer is not None
            assert answer.status == 200
            await no_violations_in_both_themes(window, "identity provider")
    finally:
        end_api(world.stack, "development")
