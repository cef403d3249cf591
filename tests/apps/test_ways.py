"""A customer links a phone and identities to their account, and unlinks one, after a sign-in that is recent."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.apps.people import NUMBERS, CustomerApp, customer_app
from tests.apps.test_accessibility import Inspector
from tests.http.sign_in.people import another_api, end_api
from tests.http.sign_in.test_development_identity import NO_PROVIDER
from tests.stack import World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def dewi(browser: Browser, world: World) -> AsyncIterator[CustomerApp]:
    """Open the app at an api process with the development identity providers; its customer signs in by phone."""
    base = another_api(world.stack, "development", DEVELOPMENT_IDENTITIES="true", **NO_PROVIDER)
    try:
        async with world.setting(otp_resend_cooldown_seconds=1), customer_app(browser, world, base=base) as app:
            await app.open(f"customer/?{app.query}")
            await app.press("Skip")
            await app.press("Continue")
            await app.signed_in(NUMBERS[0])
            await app.choose_name("Dewi")
            await app.sees_heading("How long do you want to talk?")
            await app.open(f"customer/?{app.query}#/profile")
            await app.page.get_by_role("link", name="Ways to sign in").click()
            yield app
    finally:
        end_api(world.stack, "development")


def row(app: CustomerApp, name: str) -> Locator:
    """Return the row of a way to sign in."""
    return app.page.get_by_role("listitem").filter(has_text=name)


async def test_customer_links_and_unlinks_ways_to_sign_in(world: World, dewi: CustomerApp) -> None:
    see = Inspector(dewi)
    await expect(row(dewi, "Phone number")).to_contain_text(NUMBERS[0])
    await expect(row(dewi, "Provider A")).to_contain_text("Not linked")
    await dewi.press("Link: Provider A")
    await dewi.page.frame_locator("dialog iframe").get_by_role("button", name="dewi@example.test").click()
    await expect(row(dewi, "Provider A")).to_contain_text("dewi@example.test")
    await expect(dewi.page.get_by_role("heading", name="Ways to sign in")).to_be_focused()
    await see("ways to sign in")
    await dewi.press("Change: Phone number")
    sheet = dewi.page.get_by_role("dialog", name="Your phone number")
    await expect(sheet).to_contain_text("all your other devices are signed out")
    await see("another phone")
    await dewi.ask_for_code(NUMBERS[1])
    await dewi.type_code()
    await expect(row(dewi, "Phone number")).to_contain_text(NUMBERS[1])
    await dewi.press("Unlink: Provider A")
    await dewi.press("Unlink", within=dewi.page.get_by_role("dialog", name="Unlink Provider A?"))
    await expect(row(dewi, "Provider A")).to_contain_text("Not linked")
    await expect(dewi.page.get_by_role("heading", name="Ways to sign in")).to_be_focused()
    (found,) = await world.stack.sql(
        "SELECT phone, identity_a_sub FROM customers WHERE id = $1::uuid", await dewi.customer_id()
    )
    assert tuple(found) == (NUMBERS[1], None)


async def test_customer_with_an_old_sign_in_signs_in_again_first(world: World, dewi: CustomerApp) -> None:
    customer_id = await dewi.customer_id()
    mine = "user_id = $1::uuid AND revoked_at IS NULL"
    await world.stack.sql(
        f"UPDATE auth_sessions SET created_at = created_at - interval '11 minutes' WHERE {mine}", customer_id
    )
    (old,) = await world.stack.sql(f"SELECT id FROM auth_sessions WHERE {mine}", customer_id)
    await dewi.press("Change: Phone number")
    sheet = dewi.page.get_by_role("dialog", name="Sign in again first")
    await expect(sheet.get_by_label("Phone number")).not_to_be_editable()
    await Inspector(dewi)("sign-in again")
    await dewi.press("Send the code", within=sheet)
    await dewi.type_code()
    await expect(dewi.page.get_by_text("You are signed in again.")).to_be_visible()
    await dewi.press("Change: Phone number")
    await expect(dewi.page.get_by_role("dialog", name="Your phone number")).to_be_visible()
    (new,) = await world.stack.sql(f"SELECT id FROM auth_sessions WHERE {mine}", customer_id)
    assert new["id"] != old["id"]
