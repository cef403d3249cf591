"""The second factor in a browser: enrolment, sign-in, fresh codes, and a role that requires it."""

import base64
import re
import time

import pytest
from playwright.async_api import Browser, Page, expect

from core.accounts.operators import totp
from tests.http.operators.second_factor import an_enrolled_operator, login
from tests.http.operators.steps import PASSWORD, a_role, an_account, an_operator, unique
from tests.pages.browser import DESK, PHONE, BrowserWindow, open_window
from tests.pages.test_pages import check_page_fits_window, no_violations
from tests.stack import World

pytestmark = pytest.mark.anyio


def code_of(secret: str, away: int = 0) -> str:
    """Return the code of an authenticator for a secret as people type it, `away` steps from now."""
    text = secret.replace(" ", "")
    raw = base64.b32decode(text + "=" * (-len(text) % 8))
    return totp.code_at(raw, int(time.time()) // totp.STEP_S + away)


async def set_up(window: BrowserWindow, *, code: str | None = None) -> str:
    """Go through the three dialogs, checking each with axe; return the secret."""
    page = window.page
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="Set it up…").click()
    await no_violations(window, "password")
    await dialog.get_by_label("Current password").fill(PASSWORD)
    if code is not None:
        await dialog.get_by_label("One-time code").fill(code)
    await dialog.get_by_role("button", name="Continue").click()
    picture = dialog.get_by_role("img", name="QR code of the secret")
    await expect(picture).to_be_visible()
    await no_violations(window, "QR code")
    await check_page_fits_window(window, "QR code")
    secret = await dialog.locator("code").inner_text()
    await dialog.get_by_label("Code", exact=True).fill("000000")
    await dialog.get_by_role("button", name="Confirm").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Incorrect or already used code")
    await dialog.get_by_label("Code", exact=True).fill(code_of(secret))
    await dialog.get_by_role("button", name="Confirm").click()
    await expect(dialog.get_by_role("heading", name="Recovery codes")).to_be_visible()
    await expect(dialog.get_by_role("listitem")).to_have_count(10)
    await no_violations(window, "recovery codes")
    await check_page_fits_window(window, "recovery codes")
    await dialog.get_by_role("button", name="I have saved them").click()
    await expect(dialog).to_have_count(0)
    return secret


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_operator_enrols_a_second_factor_and_signs_in_with_it(browser: Browser, world: World, size: dict) -> None:
    root = await world.operator()
    account = await an_account(root, (await a_role(root, {"customers": "read"}))["id"])
    async with open_window(browser, world.stack.addresses.internal, **size) as window:
        page = window.page
        await window.open("#/account")
        await page.get_by_label("E-mail").fill(account["email"])
        await page.get_by_label("Password", exact=True).fill(PASSWORD)
        await page.keyboard.press("Enter")
        await window.settled()
        secret = await set_up(window)
        await expect(page.get_by_text("in use")).to_be_visible()
        await page.get_by_role("button", name="Sign out", exact=True).click()
        await page.get_by_label("E-mail").fill(account["email"])
        await page.get_by_label("Password", exact=True).fill(PASSWORD)
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Code", exact=True)).to_be_focused()
        await no_violations(window, "code")
        await page.get_by_label("Code", exact=True).fill("000000")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert").get_by_text("Incorrect or already used code")).to_be_visible()
        await page.get_by_role("button", name="Use a recovery code").click()
        await expect(page.get_by_label("Recovery code")).to_be_focused()
        await page.get_by_role("button", name="Use the authenticator app").click()
        await page.get_by_label("Code", exact=True).fill(code_of(secret, 1))
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="My account")).to_be_visible()


async def test_qr_code_shows_the_otpauth_uri_of_the_service(window: BrowserWindow, world: World) -> None:
    """Compare the drawing with the encoder's own modules, because no QR code reader is available."""
    await window.open("#/account")
    await window.settled()
    drawn = await window.page.evaluate(
        """async () => {
          const { qr } = await import("/internal/static/parts/qr.js");
          const { encode } = await import("/internal/static/vendor/uqr.js");
          const uri = "otpauth://totp/Sesi%3Aa%40example.test?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Sesi";
          const { data, size } = encode(uri, { ecc: "M", border: 4 });
          const path = qr(uri, "x").querySelector("path").getAttribute("d");
          const dark = new Set(path.match(/M\\d+ \\d+/g));
          const wanted = data.flatMap((row, y) => row.flatMap((on, x) => (on ? [`M${x} ${y}`] : [])));
          return { size, same: wanted.length === dark.size && wanted.every((one) => dark.has(one)) };
        }"""
    )
    assert drawn["same"] is True
    assert drawn["size"] >= 41 + 8


async def test_role_requiring_a_second_factor_shows_only_enrolment_before(browser: Browser, world: World) -> None:
    root = await world.operator()
    body = {"name": unique("strict"), "permissions": {"customers": "read"}, "require_totp": True}
    role = await root.post("/internal/roles", body)
    account = await an_account(root, role["id"])
    said = world.stack.command("operator", "reset-totp", "--email", account["email"]).stdout
    async with open_window(browser, world.stack.addresses.internal) as window:
        page: Page = window.page
        await window.open("#/customers")
        await window.sign_in(account["email"], PASSWORD)
        await window.settled()
        await expect(page.get_by_text("Your role requires a second factor. Set it up first.")).to_be_visible()
        await expect(page.get_by_role("navigation", name="Menu").get_by_role("link")).to_have_text(["My account"])
        await no_violations(window, "enrolment")
        await set_up(window, code=said.strip().rpartition(": ")[2])
        await expect(page.get_by_role("heading", name="Customers", level=1)).to_be_visible()


async def test_new_operator_whose_role_requires_a_second_factor_gets_a_code(browser: Browser, world: World) -> None:
    me, root = await an_enrolled_operator(world, {"*": "write"}), await world.operator()
    strict = await root.post("/internal/roles", {"name": unique("strict"), "permissions": {}, "require_totp": True})
    loose = await root.post("/internal/roles", {"name": unique("loose"), "permissions": {"customers": "read"}})
    other = await an_account(root, loose["id"])
    await me.step_up()
    async with open_window(browser, world.stack.addresses.internal) as window:
        page: Page = window.page
        await window.signed_in(me.client)
        await window.open("#/operators")
        await window.settled()
        name, email = unique("Budi"), f"{unique('budi')}@example.test"
        await page.get_by_role("button", name="Add an operator…").click()
        form = page.get_by_role("dialog", name="Add an operator")
        await form.get_by_label("Name").fill(name)
        await form.get_by_label("E-mail").fill(email)
        await form.get_by_label("Role").select_option(label=strict["name"])
        await form.get_by_label("Password").fill(PASSWORD)
        await form.get_by_role("button", name="Add", exact=True).click()
        shown = page.get_by_role("dialog", name=f"One-time code for {name}")
        code = await shown.locator("code").inner_text()
        await shown.get_by_role("button", name="Done").click()
        await window.open("#/roles")
        await window.settled()
        row = page.get_by_role("row").filter(has_text=loose["name"])
        await row.get_by_role("button", name="Edit").click()
        await page.get_by_label("Its operators need a second factor").check()
        await page.get_by_role("button", name="Save").click()
        shown = page.get_by_role("dialog", name=f"One-time code for {other['display_name']}")
        await expect(shown.locator("code")).to_have_text(re.compile(r"^\S{19}$"))
        await shown.get_by_role("button", name="Done").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
    async with open_window(browser, world.stack.addresses.internal) as window:
        await window.open("#/customers")
        await window.sign_in(email, PASSWORD)
        await window.settled()
        await set_up(window, code=code)


async def test_protected_action_continues_after_a_fresh_code(browser: Browser, world: World) -> None:
    me = await an_enrolled_operator(world, {"*": "write"})
    target = await an_operator(world, {})
    await (await world.operator()).call("PATCH", f"/internal/operators/{target.id}", {"display_name": unique("Budi")})
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.signed_in(me.client)
        await window.open("#/roles")
        await window.settled()
        name = unique("role")
        await page.get_by_role("button", name="Add a role…").click()
        await page.get_by_role("dialog").get_by_label("Name").fill(name)
        await page.get_by_label("Its operators need a second factor").check()
        await page.get_by_role("button", name="Add", exact=True).click()
        asked = page.get_by_role("dialog", name="Enter a code")
        await expect(asked).to_be_visible()
        await no_violations(window, "fresh code")
        await page.keyboard.press("Escape")
        await expect(asked).to_have_count(0)
        await expect(page.get_by_role("alert").get_by_text("Confirm this with your second factor")).to_be_visible()
        await page.get_by_role("button", name="Add", exact=True).click()
        await asked.get_by_label("Code", exact=True).fill(me.code(1))
        await asked.get_by_role("button", name="Confirm").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        row = page.get_by_role("row").filter(has_text=name)
        await expect(row.get_by_text("required")).to_be_visible()
        # Within the five minutes no code is requested.
        await row.get_by_role("button", name="Edit").click()
        await page.get_by_label("Its operators need a second factor").uncheck()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(row.get_by_text("required")).to_have_count(0)


async def test_administrator_resets_another_operators_second_factor(browser: Browser, world: World) -> None:
    me, root = await an_enrolled_operator(world, {"*": "write"}), await world.operator()
    target, plain = await an_operator(world, {}), await an_operator(world, {})
    enrolled = await an_enrolled_operator(world, {})
    name = unique("Budi")
    await root.call("PATCH", f"/internal/operators/{target.id}", {"display_name": name})
    await root.call("PATCH", f"/internal/roles/{target.role_id}", {"require_totp": True})
    await me.step_up()
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.signed_in(me.client)
        await window.open("#/operators")
        await window.settled()
        row = page.get_by_role("row").filter(has_text=plain.email)
        await expect(row.get_by_role("button")).to_have_count(2)  # nothing to reset, and their role needs none
        row = page.get_by_role("row").filter(has_text=target.email)
        await row.get_by_role("button", name="One-time code…").click()
        await page.get_by_role("button", name="Make the code").click()
        dialog = page.get_by_role("dialog", name=f"One-time code for {name}")
        code = await dialog.locator("code").inner_text()
        assert len(code) == 19
        await no_violations(window, "one-time code")
        await dialog.get_by_role("button", name="Done").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        row = page.get_by_role("row").filter(has_text=enrolled.email)
        await row.get_by_role("button", name="Reset second factor…").click()
        await page.get_by_role("button", name="Reset", exact=True).click()
        await expect(row.get_by_text("second factor")).to_have_count(0)
        assert (await login(world.client(), enrolled.email))["operator"]["id"] == enrolled.id


async def test_operator_signs_out_another_device(browser: Browser, world: World) -> None:
    me = await an_operator(world, {})
    other = world.client()
    other._http.headers["X-Platform"] = "the other desk"
    await other.sign_in_as_operator(me.email, PASSWORD)
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.signed_in(me.client)
        await window.open("#/account")
        await window.settled()
        row = page.get_by_role("row").filter(has_text="the other desk")
        await row.get_by_role("button", name="Sign out…").click()
        await page.get_by_role("dialog").get_by_role("button", name="Sign out").click()
        await expect(row).to_have_count(0)
        await expect(page.get_by_text("this device")).to_be_visible()
        other.refresh_token = None
        await world.until(lambda: other._once("GET", "/internal/auth/me", None), lambda seen: seen[0] == 401)


async def test_initial_password_is_replaced_before_any_other_page(browser: Browser, world: World) -> None:
    root = await world.operator()
    role = await a_role(root, {"customers": "read"})
    email = f"{unique('op')}@example.test"
    world.stack.command(
        "operator", "create", "--email", email, "--display-name", "Sari", "--role", role["name"], "--password-stdin",
        stdin=PASSWORD, INITIAL_PASSWORDS_EXPIRE="true",
    )  # fmt: skip
    async with open_window(browser, world.stack.addresses.internal) as window:
        page: Page = window.page
        await window.open("#/customers")
        await window.sign_in(email, PASSWORD)
        await window.settled()
        await expect(page.get_by_text("An administrator set your password. Replace it to continue.")).to_be_visible()
        await expect(page.locator("nav.menu a")).to_have_count(1)
        await expect(page.get_by_role("heading", name="Second factor")).to_have_count(0)
        await no_violations(window, "initial password")
        await check_page_fits_window(window, "initial password")
        await page.get_by_label("Current password").fill(PASSWORD)
        await page.get_by_role("textbox", name="New password").fill(PASSWORD)
        await page.get_by_role("button", name="Change the password").click()
        await expect(page.locator(".wrong")).to_be_visible()
        await page.get_by_role("textbox", name="New password").fill("an even longer password 8")
        await page.get_by_role("button", name="Change the password").click()
        await expect(page.get_by_role("heading", name="Customers", level=1)).to_be_visible()
        await expect(page.get_by_text("Password changed.")).to_be_visible()
