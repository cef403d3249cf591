"""The mitra app against the service: presence, requests, chats, the sensitive mark, more time and goodbyes."""

import re
import uuid
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.pages.browser import DESK, PHONE, BrowserWindow
from tests.pages.mitra_app import accept, go_online, mitra_app, write
from tests.pages.test_pages import check_page_fits_window, no_violations_in_both_themes
from tests.stack import World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

CHAT = "/api/shared/chat/sessions"


def requested(page: Page, name: str) -> Any:
    """Return the card of a customer's request."""
    return page.get_by_role("listitem").filter(has_text=name).filter(has=page.get_by_role("timer"))


async def say(customer: Device, session_id: str, text: str) -> None:
    body = {"content": text, "client_message_id": str(uuid.uuid4())}
    await customer.post(f"{CHAT}/{session_id}/messages", body)


async def begin(world: World, page: Page, name: str, **wish: Any) -> tuple[Device, str]:
    """Let a new customer ask, and the mitra accept; return the customer and the session's id."""
    customer = await world.customer(name)
    payment = await world.paid(customer, **wish)
    await accept(page, name)
    return customer, payment["session_id"]


async def ask_for_more(world: World, customer: Device, session_id: str) -> None:
    extension = await world.request(customer, is_extension=True, session_id=session_id)
    assert (await world.webhook(extension))[1]["processing_result"] == "confirmed"


async def test_request_shows_what_the_mitra_must_know_and_is_rejected(browser: Browser, world: World) -> None:
    async with mitra_app(browser, world) as page:
        await world.paid(await world.customer("Rina"), mode="call", topics=["family", "own topic"])
        card = requested(page, "Rina")
        await expect(card).to_contain_text("12 minutes")
        await expect(card).to_contain_text("Call")
        await expect(card.get_by_role("list", name="Topics").get_by_role("listitem")).to_have_text(
            ["Family", "own topic"]
        )
        await expect(card.get_by_role("timer")).to_have_text(re.compile(r"\d:\d\d"))
        await page.get_by_role("button", name="Reject: Rina").click()
        await expect(card).to_have_count(0)
        await expect(page.get_by_text("Nobody is waiting now.")).to_be_visible()


async def test_second_mitra_sees_that_the_first_has_taken_the_request(browser: Browser, world: World) -> None:
    async with mitra_app(browser, world, "Ayu") as first, mitra_app(browser, world, "Sari") as second:
        await world.paid(await world.customer("Rina"))
        await expect(second.get_by_role("button", name="Accept: Rina")).to_be_visible()
        await second.clock.install()
        await accept(first, "Rina")
        await expect(second.get_by_text("Another mitra was faster.")).to_be_visible()
        await expect(second.get_by_role("button", name="Accept: Rina")).to_have_count(0)
        await second.clock.fast_forward(6_000)
        await expect(second.get_by_text("Another mitra was faster.")).to_have_count(0)


async def test_full_mitra_keeps_the_request_and_sees_why(browser: Browser, world: World) -> None:
    async with mitra_app(browser, world) as page:
        payment = await world.paid(await world.customer("Rina"))
        async with world.setting(max_customers_per_mitra=1):
            other = await world.paid(await world.customer("Bayu"))
            await accept(page, "Rina")
            await page.get_by_role("link", name="Chat request of Bayu").click()
            await page.get_by_role("button", name="Accept: Bayu").click()
            await expect(page.get_by_text("All your places are taken. Accept when a chat has ended.")).to_be_visible()
        await accept(page, "Bayu")
        assert payment["session_id"] != other["session_id"]


async def test_operator_takes_the_mitra_offline_and_deactivates_them(browser: Browser, world: World) -> None:
    operator = await world.operator()
    async with mitra_app(browser, world) as page:
        me = (await operator.get("/internal/mitras?limit=1"))["items"][0]
        await operator.post(f"/internal/mitras/{me['id']}/force-offline")
        await expect(page.get_by_text("An operator took you offline.")).to_be_visible()
        await expect(page.get_by_role("switch", name="Online")).not_to_be_checked()
        await go_online(page)
        await expect(page.get_by_text("An operator took you offline.")).to_have_count(0)
        await operator.call("PATCH", f"/internal/mitras/{me['id']}", {"is_active": False})
        await expect(page.get_by_role("button", name="Send the code")).to_be_visible()
        await expect(page.get_by_text("operator has deactivated your account")).to_be_visible()


async def test_mitra_sees_when_the_phone_last_gave_a_sign_during_a_check(browser: Browser, world: World) -> None:
    async with mitra_app(browser, world) as page:
        sign = page.get_by_text("Your phone last gave a sign during a check on")
        await expect(sign).to_have_count(0)
        newest = "(SELECT id FROM mitras ORDER BY id DESC LIMIT 1)"
        await world.stack.sql(f"UPDATE mitra_online_status SET reachable_at = now() WHERE mitra_id = {newest}")
        await page.reload()
        await expect(sign).to_be_visible()


async def test_several_chats_show_their_unread_messages(browser: Browser, world: World) -> None:
    async with mitra_app(browser, world) as page:
        rina, session_id = await begin(world, page, "Rina")
        await page.get_by_role("link", name="Back").click()
        await begin(world, page, "Bayu")
        await say(rina, session_id, "Halo Kak")
        await page.get_by_role("link", name="New messages of Rina").click()
        row = page.get_by_role("region", name="Your chats").get_by_role("listitem").filter(has_text="Rina")
        await expect(row).to_contain_text("Unread:1")
        await row.get_by_role("link").click()
        await expect(page.get_by_role("log", name="Messages")).to_contain_text("Halo Kak")
        await write(page, "Halo Rina")
        await page.get_by_role("link", name="Back").click()
        await expect(row).to_contain_text("You: Halo Rina")
        await expect(row).not_to_contain_text("Unread")


async def test_sensitive_mark_is_confirmed_and_stays(browser: Browser, world: World) -> None:
    async with (
        world.setting(sensitive_flip_confirmation_enabled=True, sensitive_flag_one_way_latch=True),
        mitra_app(browser, world) as page,
    ):
        await begin(world, page, "Rina")
        await page.get_by_role("button", name="More").click()
        await page.get_by_role("button", name="Mark as sensitive").click()
        question = page.get_by_role("dialog", name="Is this topic sensitive?")
        await expect(question).to_contain_text("You can't take this mark back.")
        await question.get_by_role("button", name="Mark as sensitive").click()
        await expect(page.get_by_text("Sensitive", exact=True)).to_be_visible()
        await page.get_by_role("button", name="More").click()
        await expect(page.get_by_role("dialog", name="This chat")).to_be_visible()
        await expect(page.get_by_role("button", name=re.compile("^Mark as"))).to_have_count(0)


async def test_sensitive_mark_needs_no_question_and_is_taken_back(browser: Browser, world: World) -> None:
    async with (
        world.setting(sensitive_flip_confirmation_enabled=False, sensitive_flag_one_way_latch=False),
        mitra_app(browser, world) as page,
    ):
        await begin(world, page, "Rina")
        for button, count in (("Mark as sensitive", 1), ("Mark as not sensitive", 0)):
            await page.get_by_role("button", name="More").click()
            await page.get_by_role("button", name=button, exact=True).click()
            await expect(page.get_by_text("Sensitive", exact=True)).to_have_count(count)


@pytest.mark.parametrize(("button", "outcome"), [("Go on", "12 more minutes."), ("Not this time", "is not extended.")])
async def test_mitra_answers_an_extension(browser: Browser, world: World, button: str, outcome: str) -> None:
    async with mitra_app(browser, world) as page:
        rina, session_id = await begin(world, page, "Rina")
        await ask_for_more(world, rina, session_id)
        notice = page.get_by_role("region", name="More time")
        await expect(notice).to_contain_text("Rina asks for 12 more minutes.")
        await expect(notice.get_by_role("timer")).to_have_text(re.compile(r"\d:\d\d"))
        await notice.get_by_role("button", name=button).click()
        await expect(page.get_by_text(outcome)).to_be_visible()
        await expect(notice).to_have_count(0)


async def test_early_end_is_asked_twice_and_both_say_goodbye(browser: Browser, world: World) -> None:
    async with (
        world.setting(early_end_mitra_enabled=True, end_session_two_step_confirm=True),
        mitra_app(browser, world) as page,
    ):
        rina, session_id = await begin(world, page, "Rina")
        await page.get_by_role("button", name="More").click()
        await page.get_by_role("button", name="End the chat").click()
        await page.get_by_role("dialog", name="End the chat?").get_by_role("button", name="End the chat").click()
        await page.get_by_role("dialog", name="Are you sure?").get_by_role("button", name="Yes, end it now").click()
        await expect(page.get_by_role("textbox", name="Message")).not_to_be_editable()
        await page.get_by_label("Your goodbye to Rina").fill("Terima kasih, Rina.")
        await page.get_by_role("button", name="Send the goodbye").click()
        await expect(page.get_by_text("We wait for Rina's.")).to_be_visible()
        await rina.post(f"{CHAT}/{session_id}/closure", {"message": "Terima kasih, Kak!"})
        await expect(page.get_by_role("region", name="The chat is over.")).to_contain_text("Terima kasih, Kak!")
        await page.get_by_role("link", name="Back").click()
        await page.get_by_role("link", name="Earlier chats").click()
        await expect(page.get_by_role("listitem").filter(has_text="Rina")).to_contain_text("12 minutes")


async def test_chat_can_not_be_ended_early_while_the_switch_is_off(browser: Browser, world: World) -> None:
    async with mitra_app(browser, world) as page:
        await begin(world, page, "Rina")
        await page.get_by_role("button", name="More").click()
        await expect(page.get_by_role("dialog", name="This chat")).to_contain_text("12 minutes")
        await expect(page.get_by_role("button", name="End the chat")).to_have_count(0)


async def test_reload_keeps_sign_in_and_chat_and_sign_out_ends_them(browser: Browser, world: World) -> None:
    async with mitra_app(browser, world) as page:
        await begin(world, page, "Rina")
        await write(page, "Halo Rina")
        await expect(page.get_by_role("img", name="Sent")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("log", name="Messages")).to_contain_text("Halo Rina")
        await page.get_by_role("link", name="Back").click()
        await page.get_by_role("link", name="Account").click()
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("dialog", name="Sign out?").get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("button", name="Send the code")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("button", name="Send the code")).to_be_visible()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_every_screen_is_accessible(browser: Browser, world: World, size: dict[str, Any]) -> None:
    async with mitra_app(browser, world, online=False, **size) as page:
        window = BrowserWindow(page.context, page, world.stack.addresses.public)

        async def check(where: str) -> None:
            await no_violations_in_both_themes(window, where)
            await check_page_fits_window(window, where)

        await check("offline")
        await go_online(page)
        await world.paid(await world.customer("Bayu"), topics=["work"])
        await expect(page.get_by_role("button", name="Accept: Bayu")).to_be_visible()
        await check("request")
        rina, session_id = await begin(world, page, "Rina")
        await say(rina, session_id, "Halo Kak")
        await write(page, "Halo Rina")
        await expect(page.get_by_role("img", name="Sent")).to_be_visible()
        await check("chat")
        await ask_for_more(world, rina, session_id)
        await expect(page.get_by_role("region", name="More time")).to_be_visible()
        await check("extension")
        await page.get_by_role("button", name="More").click()
        await check("menu")
        await page.keyboard.press("Escape")
        await (await world.operator()).post(f"/internal/sessions/{session_id}/end", {"reason": "test"})
        await expect(page.get_by_label("Your goodbye to Rina")).to_be_visible()
        await check("goodbye")
        for path, heading in (("account", "Account"), ("devices", "Devices"), ("history", "Earlier chats")):
            await page.goto(f"{page.url.split('#')[0]}#/{path}")
            await expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
            await expect(page.get_by_text("Loading")).to_have_count(0)
            await check(path)


async def test_app_that_a_push_opens_reports_it_once(browser: Browser, world: World) -> None:
    opened = "SELECT count(*)::int FROM delivery_trail WHERE event_id = $1::uuid AND stage = 'opened'"
    async with mitra_app(browser, world) as page:
        payment = await world.paid(await world.customer("Rina"))
        await expect(requested(page, "Rina")).to_be_visible()
        asked = "SELECT event_id::text FROM delivery_trail WHERE session_id = $1::uuid AND event = 'chat_request'"
        (row, *_) = await world.until(lambda: world.stack.sql(asked, payment["session_id"]), bool)
        for _ in range(2):
            async with page.expect_response(re.compile("/api/shared/push-opened$")) as answer:
                await page.goto(re.sub(r"[?].*", f"?frame=test&lang=en&push={row['event_id']}", page.url))
            assert (await answer.value).status == 204
        assert [one[0] for one in await world.stack.sql(opened, row["event_id"])] == [1]
