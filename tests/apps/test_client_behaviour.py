"""The seven numbered client behaviours of the specification, in the customer app."""

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Locator, Request, Route, expect

from tests.apps.people import NUMBERS, CustomerApp
from tests.http.sign_in.people import another_api, end_api
from tests.stack import World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

A_BUTTON, B_BUTTON = "Continue with Provider A", "Continue with Provider B"
ANONYMOUS = "Continue without an account"
WRONG = "135790"
TIERS = "/internal/pricing/tiers"
MINUTES_S = 95  # a countdown from here has minutes, one from 60 has not


def provider_settings(name: str) -> dict[str, str]:
    """Return the settings that enable one identity provider."""
    prefix = f"IDENTITY_{name.upper()}_"
    return {
        prefix + "JWKS_URL": "http://127.0.0.1:9/keys",
        prefix + "ISSUERS": "https://identity.example",
        prefix + "AUDIENCES": "app",
    }


async def with_history(world: World, app: CustomerApp, mitra: Device) -> None:
    """Give the customer who uses the app a past session with a mitra."""
    body = {"customer_id": await app.customer_id(), "mitra_id": mitra.user["id"]}
    await (await world.operator()).post("/internal/_test/seed-history-session", body)


async def at_home(app: CustomerApp) -> None:
    """Come to the first screen of a signed-in customer."""
    await app.start("Dewi")
    await app.sees_heading("How long do you want to talk?")
    await app.open("customer/?lang=en#/")
    await app.sees_heading("Dewi")


# -- 1. sign-in buttons


@pytest.mark.parametrize(("enabled", "shown"), [("", []), ("a", [A_BUTTON]), ("b", [B_BUTTON])])
async def test_sign_in_offers_the_enabled_providers_only(
    world: World, dewi: CustomerApp, enabled: str, shown: list[str]
) -> None:
    base = another_api(world.stack, "production", ENVIRONMENT="test", **(provider_settings(enabled) if enabled else {}))
    try:
        for name in ("auth-providers", "config/app"):
            await dewi.page.route(
                f"**/api/shared/{name}",
                lambda route: route.continue_(url=route.request.url.replace(world.stack.addresses.public, base)),
            )
        await dewi.open("customer/?lang=en")
        await dewi.press("Skip")
        await dewi.press("Continue")
        await expect(dewi.page.get_by_role("link", name="Continue with your phone")).to_be_visible()
        found = dewi.page.get_by_role("button", name=re.compile("^Continue with Provider"))
        await expect(found).to_have_text([re.compile(name) for name in shown])
    finally:
        end_api(world.stack, "production")


# -- 2. the start button of a returning customer


async def test_start_without_a_history_goes_to_the_payment_entry(dewi: CustomerApp) -> None:
    await at_home(dewi)
    await dewi.press("Start a session")
    await dewi.sees_heading("How long do you want to talk?")
    await dewi.page.get_by_role("link", name=re.compile("What is on your mind")).click()
    await dewi.choose_topics("Family", "Sleep")
    await expect(dewi.page.get_by_role("link", name=re.compile("What is on your mind"))).to_contain_text(
        "Family, Sleep"
    )


async def test_start_with_a_history_offers_a_known_mitra_or_a_new_one(world: World, dewi: CustomerApp) -> None:
    await at_home(dewi)
    await with_history(world, dewi, await world.mitra("Ayu"))
    await dewi.page.reload()
    await expect(dewi.page.get_by_role("link", name=re.compile("Ayu"))).to_be_visible()
    sheet = dewi.page.get_by_role("dialog", name="With whom do you want to talk?")
    await dewi.press("Start a session")
    await dewi.press(re.compile("A mitra I know"), within=sheet)
    # The first screen has this heading too, at another level.
    await expect(dewi.page.get_by_role("heading", name="Mitras you know", level=1)).to_be_visible()
    await expect(dewi.page.get_by_role("link", name=re.compile("Ayu"))).to_be_visible()
    await dewi.open("customer/?lang=en#/")
    await expect(dewi.page.get_by_role("link", name=re.compile("Ayu"))).to_be_visible()
    await dewi.press("Start a session")
    await dewi.press(re.compile("Someone new"), within=sheet)
    await dewi.sees_heading("What is on your mind?")


async def test_late_answers_neither_move_the_start_button_nor_lose_a_press(world: World, dewi: CustomerApp) -> None:
    """A person presses as soon as they see the button: what is read after that must leave it where it is."""
    await at_home(dewi)
    await with_history(world, dewi, await world.mitra("Ayu"))
    go_on = asyncio.Event()

    async def wait(route: Route) -> None:
        await go_on.wait()
        await route.continue_()

    for path in ("mitras/availability", "chat/history"):
        await dewi.page.route(f"**/api/client/{path}", wait)
    await dewi.page.reload()
    start = dewi.page.get_by_role("button", name="Start a session")
    before = await start.bounding_box()
    await start.click()
    go_on.set()
    sheet = dewi.page.get_by_role("dialog", name="With whom do you want to talk?")
    await expect(sheet).to_be_visible()
    await expect(dewi.page.locator(".availability")).to_have_text(re.compile("available"))
    await expect(dewi.page.locator("a.row-link", has_text="Ayu")).to_have_count(1)
    assert await start.bounding_box() == before


async def test_names_show_their_whole_first_letter_in_their_own_direction(world: World, dewi: CustomerApp) -> None:
    await at_home(dewi)
    for name, letter in (("😀 Rina", "😀"), ("👩🏽‍⚕️ Dr. Ayu", "👩🏽‍⚕️"), ("مريم", "م")):
        await with_history(world, dewi, await world.mitra(name))
        await dewi.page.reload()
        row = dewi.page.get_by_role("link", name=name)
        await expect(row.locator(".avatar")).to_have_text(letter)
        direction = await row.locator("strong").evaluate("element => getComputedStyle(element).direction")
        assert direction == ("rtl" if name == "مريم" else "ltr")


# -- 3. the code


async def at_phone(app: CustomerApp) -> None:
    """Come to the field for the phone number."""
    await app.open("customer/?lang=en")
    await app.press("Skip")
    await app.press("Continue")
    await app.page.get_by_role("link", name="Continue with your phone").click()


async def test_code_is_sent_at_its_sixth_digit(dewi: CustomerApp) -> None:
    sent: list[Request] = []
    dewi.page.on("request", lambda request: sent.append(request) if request.url.endswith("/otp/verify") else None)
    await at_phone(dewi)
    await dewi.ask_for_code(NUMBERS[1])
    await dewi.type_code(WRONG[:5])
    assert sent == []
    await dewi.page.get_by_label("6-digit code").press_sequentially(WRONG[5])
    await expect(dewi.page.get_by_text("The code is not right")).to_be_visible()
    assert len(sent) == 1
    await dewi.type_code()
    await dewi.choose_name("Dewi")
    await dewi.sees_heading("How long do you want to talk?")


@pytest.mark.parametrize(
    ("cooldown_s", "shown"), [(60, re.compile(r"^\d+ s$")), (MINUTES_S, re.compile(r"^1 min \d+ s$"))]
)
async def test_resend_counts_down_by_the_configured_cooldown(
    world: World, dewi: CustomerApp, cooldown_s: int, shown: re.Pattern[str]
) -> None:
    async with world.setting(otp_resend_cooldown_seconds=cooldown_s):
        await at_phone(dewi)
        await dewi.ask_for_code(NUMBERS[2 if cooldown_s == 60 else 3])
        timer = dewi.page.get_by_role("timer", name="Time until a new code can be sent")
        await expect(timer).to_have_text(shown)
        await expect(dewi.page.get_by_role("button", name="Send a new code")).to_be_hidden()


async def test_rate_limit_extends_the_countdown_to_its_retry_after(world: World, dewi: CustomerApp) -> None:
    async with world.setting(otp_resend_cooldown_seconds=1, otp_max_per_phone_per_hour=1):
        await at_phone(dewi)
        await dewi.ask_for_code(NUMBERS[4])
        await dewi.press("Send a new code")
        await dewi.press("Wait", within=blocked(dewi))
        timer = dewi.page.get_by_role("timer", name="Time until a new code can be sent")
        await expect(timer).to_have_text(re.compile(r"^(59|60) min \d+ s$"))


# -- 4. the popup


def blocked(app: CustomerApp) -> Locator:
    """Return the popup that offers to go on without an account."""
    return app.page.get_by_role("dialog", name="Sign-in by code is paused")


@pytest.mark.parametrize("code", ["OTP_RATE_LIMIT_PHONE", "OTP_RATE_LIMIT_IP", "OTP_COOLDOWN", "OTP_ATTEMPTS_EXCEEDED"])
async def test_blocked_code_offers_the_anonymous_path_and_keeps_the_choices(
    world: World, dewi: CustomerApp, code: str
) -> None:
    settings: dict[str, dict[str, Any]] = {
        "OTP_RATE_LIMIT_PHONE": {"otp_max_per_phone_per_hour": 0},
        "OTP_RATE_LIMIT_IP": {"otp_max_per_ip_per_hour": 0},
        "OTP_ATTEMPTS_EXCEEDED": {"otp_verify_max_attempts": 1},
    }
    number = NUMBERS[10 + len(code) % 10]
    async with world.setting(**settings.get(code, {})):
        await dewi.open("customer/?lang=en")
        await dewi.press("Skip")
        await dewi.choose_topics("Family", "Sleep")
        await dewi.page.get_by_role("link", name="Continue with your phone").click()
        async with dewi.page.expect_response(lambda answer: answer.status in (422, 429, 409, 401, 400, 403)) as refused:
            await dewi.ask_for_code(number)
            if code == "OTP_COOLDOWN":
                await dewi.press("Use another number")
                await dewi.press("Send the code")
            if code == "OTP_ATTEMPTS_EXCEEDED":
                await dewi.type_code(WRONG)
                await expect(dewi.page.get_by_label("6-digit code")).to_have_value("")
                await dewi.type_code(WRONG)
        await refused.value
        await dewi.press(ANONYMOUS, within=blocked(dewi))
        await dewi.choose_name("Dewi")
        await dewi.sees_heading("How long do you want to talk?")
        await dewi.open("customer/?lang=en#/topics")  # the introduction does not come again
        for topic in ("Family", "Sleep"):
            await expect(dewi.page.get_by_role("checkbox", name=topic)).to_be_checked()
    await world.config("otp_max_per_ip_per_hour", 1_000_000)


# -- 5. topics


async def test_chosen_topics_are_stored_with_the_session(world: World, dewi: CustomerApp) -> None:
    mitra = await world.mitra("Ayu")
    await dewi.open("customer/?lang=en")
    await dewi.press("Skip")
    await expect(dewi.page.get_by_role("group", name="Topics").get_by_role("checkbox")).to_have_count(12)
    await dewi.choose_topics("Family", "Work", "Sleep")
    await dewi.press(ANONYMOUS)
    await dewi.choose_name("Dewi")
    await dewi.choose_minutes(12)
    await dewi.pay()
    found = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: seen["items"])
    session = await mitra.post(f"/api/mitra/chat-requests/{found['items'][0]['session_id']}/accept")
    await expect(dewi.page.get_by_role("textbox", name="Message")).to_be_visible()
    (row,) = await world.stack.sql("SELECT topics FROM chat_sessions WHERE id = $1::uuid", session["id"])
    assert sorted(row["topics"]) == ["family", "sleep", "work"]


# -- 6. waiting for the payment


async def test_payment_opens_the_invoice_in_a_view_inside_the_app(dewi: CustomerApp) -> None:
    await dewi.start("Dewi")
    async with dewi.page.expect_response("**/api/client/payment/requests") as making:
        await dewi.choose_minutes(12)
    payment = await (await making.value).json()
    view = dewi.page.get_by_role("dialog", name="Pay Rp 12.000").locator("iframe")
    await expect(view).to_have_attribute("src", re.compile("^" + re.escape(payment["gateway_invoice_url"]) + r"(\?|$)"))
    assert len(dewi.page.context.pages) == 1


async def test_price_that_changed_is_asked_about_before_it_is_paid(world: World, dewi: CustomerApp) -> None:
    await at_home(dewi)
    await dewi.press("Start a session")
    operator = await world.operator()
    (tier,) = [one for one in (await operator.get(TIERS))["items"] if (one["mode"], one["minutes"]) == ("chat", 30)]
    try:
        await dewi.page.get_by_role("radio", name=re.compile(r"^30 minutes\s+Rp 27\.000")).check()
        tier = await operator.call(
            "PATCH", f"{TIERS}/{tier['id']}", {"updated_at": tier["updated_at"], "price_idr": 36_000}
        )
        sheet = dewi.page.get_by_role("dialog", name="The price has changed")
        await dewi.press("Pay Rp 27.000")
        await expect(sheet.get_by_text("It is Rp 36.000 now.")).to_be_visible()
        await dewi.press("Not now", within=sheet)
        await dewi.page.get_by_role("radio", name=re.compile(r"^30 minutes\s+Rp 36\.000")).check()
        await dewi.press("Pay Rp 36.000")
        await expect(dewi.page.get_by_role("dialog", name="Pay Rp 36.000")).to_be_visible()
    finally:
        await operator.call("PATCH", f"{TIERS}/{tier['id']}", {"updated_at": tier["updated_at"], "price_idr": 27_000})


# -- 7. the chosen mitra can't be asked


async def check_popup(world: World, app: CustomerApp, title: str) -> Locator:
    """Check the popup: two variants, each with help, which leads to the configured contacts."""
    popup = app.page.get_by_role("dialog", name=title)
    variants = [popup.get_by_role("region", name=name) for name in ("Someone new", "A mitra you know")]
    handles = (await (await world.customer()).get("/api/client/support-handles"))["handles"]
    assert [handle["label"] for handle in handles] == ["WhatsApp", "Telegram"]
    for variant in variants:
        await app.press(re.compile("^Ask our team for help"), within=variant)
        sheet = app.page.get_by_role("dialog", name="Talk to our team")
        for handle in handles:
            link = sheet.get_by_role("link", name=handle["label"])
            await expect(link).to_have_attribute("href", handle["deeplink"])
        await app.press("Close", within=sheet)
    return popup


async def test_offline_mitra_opens_a_popup_with_two_variants_and_help(world: World, dewi: CustomerApp) -> None:
    mitra = await world.mitra("Ayu", online=False)
    await at_home(dewi)
    await with_history(world, dewi, mitra)
    await dewi.open(f"customer/?lang=en#/history/{mitra.user['id']}")
    await dewi.press("Chat with Ayu again")
    popup = await check_popup(world, dewi, "Ayu is not available")
    await dewi.press("Choose another mitra", within=popup)
    await dewi.sees_heading("Mitras you know")


async def test_mitra_at_capacity_is_not_called_offline(world: World, dewi: CustomerApp) -> None:
    mitra = await world.mitra("Ayu")
    await at_home(dewi)
    await with_history(world, dewi, mitra)
    await dewi.open(f"customer/?lang=en#/history/{mitra.user['id']}")
    await dewi.press("Chat with Ayu again")
    await world.session(await world.customer("Eka"), mitra)
    async with world.setting(max_customers_per_mitra=1):
        await dewi.choose_minutes(12)
        popup = await check_popup(world, dewi, "Ayu is not available")
    await expect(popup.get_by_text("They are in other chats now.")).to_be_visible()


async def test_mitra_who_declines_opens_a_popup_and_someone_new_is_asked(world: World, dewi: CustomerApp) -> None:
    mitra = await world.mitra("Ayu")
    await at_home(dewi)
    await with_history(world, dewi, mitra)
    await dewi.open(f"customer/?lang=en#/history/{mitra.user['id']}")
    async with world.setting(returning_chat_confirmation_timeout_seconds=120):  # a browser may be slow
        await dewi.press("Chat with Ayu again")
        await dewi.choose_minutes(12)
        await dewi.pay()
        found = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: seen["items"])
        await mitra.post(f"/api/mitra/chat-requests/{found['items'][0]['session_id']}/reject")
        popup = await check_popup(world, dewi, "Ayu is not available")
    other = await world.mitra("Bima")
    await dewi.press("Find someone new", within=popup)
    asked = await world.until(lambda: other.get("/api/mitra/chat-requests"), lambda seen: seen["items"])
    await other.post(f"/api/mitra/chat-requests/{asked['items'][0]['session_id']}/accept")
    await expect(dewi.page.get_by_role("heading", name="Bima")).to_be_visible()
