"""What waits for operators, in a browser: the work list, reports, and making good."""

import datetime as dt
import re
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.http.operators.second_factor import Enrolled, an_enrolled_operator
from tests.http.operators.steps import an_operator
from tests.http.privacy.steps import finish
from tests.pages.browser import BrowserWindow, open_window
from tests.pages.test_pages import no_violations_in_both_themes
from tests.pages.test_work import FAILURES, a_failure, ask_about_refunds, nothing_waits
from tests.stack import World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
# Gives the first row the longest words of the work list, and returns for each of some ages of the failures: its chips
# that have more than two lines, those of the second row that have more than one, whether the page is too wide, and the
# lines of the amount of a short payment.
AGES_S = [0, 30, 600, 43_200, 86_400, 1_000_000]
LONGEST_CHIPS = """async (ages) => {
  const { CAUSES, SUB_CAUSES } = await import("/internal/static/kernel/words.core.js");
  const { ago } = await import("/internal/static/shared/format.js");
  const { t } = await import("/internal/static/shared/words.js");
  const longest = (words) => words.map((one) => t(one)).sort((one, other) => other.length - one.length)[0];
  const words = [[...Object.values(CAUSES), ...Object.values(SUB_CAUSES)], ["not known"], ["refund not decided"]];
  const chips = (row) => [...document.querySelectorAll(`.table tbody tr:nth-child(${row}) .chip`)];
  chips(1).forEach((chip, n) => { chip.textContent = longest(words[n]); });
  const lines = (one) => Math.round(one.getBoundingClientRect().height / Number.parseFloat(getComputedStyle(one).lineHeight));
  const amount = [...document.querySelectorAll(".table .sums")].find((one) => one.textContent.includes("27.000"));
  const more = (row, most) => chips(row).filter((one) => lines(one) > most).map((one) => one.textContent);
  return ages.map((seconds) => {
    document.querySelectorAll(".table td a time").forEach((one) => { one.textContent = ago(0, 1_000 * seconds); });
    return [more(1, 2), more(2, 1), document.documentElement.scrollWidth > innerWidth, lines(amount)];
  });
}"""
AREAS = {"failed_pairings": "write", "payments": "write", "reports": "write", "sessions": "read", "customers": "read"}


async def an_earned_chat(world: World) -> tuple[Device, Device, dict[str, Any]]:
    """Create a running chat. Return the customer, the mitra, and the session as operators see it."""
    customer, mitra = await world.customer("Sari"), await world.mitra("Ayu")
    session_id = await world.session(customer, mitra)
    return customer, mitra, await (await world.operator()).get(f"/internal/sessions/{session_id}")


async def test_operator_takes_a_failure_puts_it_aside_and_goes_on_by_keys(window: BrowserWindow, world: World) -> None:
    await nothing_waits(world)
    second, first = await a_failure(world, "Bayu"), await a_failure(world, "Agus")
    page, other = window.page, await an_operator(world, AREAS)
    await other.client.call("PATCH", f"{FAILURES}/{second['id']}", {"assigned_to": other.id})
    await window.open(f"#/failed-pairings/{first['id']}")
    await expect(page.get_by_role("button", name="Take it")).to_be_visible()
    await page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    await expect(keys).to_contain_text("Put aside…")
    await keys.get_by_role("button", name="Done").click()
    await page.keyboard.press("t")
    await expect(page.get_by_text("You have taken it.")).to_be_visible()
    await expect(page.locator(".facts").get_by_text("you", exact=True)).to_be_visible()
    await page.keyboard.press("s")
    aside = page.get_by_role("dialog", name="Put this aside?")
    await aside.get_by_label("Note").fill("asked for their account")
    await aside.get_by_role("button", name="Put aside").click()
    await expect(page.get_by_text("asked for their account", exact=True)).to_be_visible()
    await expect(page.get_by_text("Put aside until", exact=True)).to_be_visible()
    # One that a colleague works on is not the next one, and taking it over is asked about.
    await expect(page.get_by_role("link", name="Next:")).to_have_count(0)
    await window.open(f"#/failed-pairings/{second['id']}")
    await page.get_by_role("button", name="Take it over…").click()
    await (
        page.get_by_role("dialog", name="Sari works on this. Take it over?")
        .get_by_role("button", name="Take it over")
        .click()
    )
    await expect(page.locator(".facts").get_by_text("you", exact=True)).to_be_visible()
    me = (await (await world.operator()).get("/internal/auth/me"))["id"]
    seen = await (await world.operator()).get(f"{FAILURES}/{second['id']}")
    assert seen["assigned_to"]["id"] == me
    await window.open("#/failed-pairings")
    await expect(page.get_by_role("row", name="Agus")).to_have_count(0)
    await page.get_by_role("link", name="1 put aside").click()
    await expect(page.get_by_role("row", name="Agus")).to_contain_text("put aside")
    await page.get_by_role("link", name="2 taken by you").or_(page.get_by_role("link", name="1 taken by you")).click()
    await expect(page.get_by_role("row", name="Bayu")).to_contain_text("you")


async def test_several_failures_are_refunded_at_once_with_a_result_for_each(
    window: BrowserWindow, world: World
) -> None:
    await nothing_waits(world)
    made = [await a_failure(world, name) for name in ("Cici", "Bayu", "Agus")]
    root, page = await world.operator(), window.page
    await window.open("#/failed-pairings")
    await page.get_by_label("Choose Agus, Rp 12.000").check()
    await expect(page.get_by_role("button", name="Refund 1, Rp 12.000…")).to_be_visible()
    await page.get_by_label("Choose all that can be refunded (3)").check()
    await page.get_by_role("button", name="Refund 3, Rp 36.000…").click()
    await root.call("PATCH", f"{FAILURES}/{made[0]['id']}", {"operator_action": "credited"})  # a colleague was faster
    dialog = page.get_by_role("dialog", name="Refund 3 payments, Rp 36.000, through the gateway?")
    await dialog.get_by_label("Reason").fill("an hour without mitras")
    await dialog.get_by_role("button", name="Refund", exact=True).click()
    results = page.get_by_role("dialog", name="2 of 3 refunds are asked for")
    await expect(results.get_by_role("listitem").filter(has_text="Cici")).to_contain_text("already been resolved")
    await expect(results.get_by_text("asked for", exact=True)).to_have_count(2)
    await results.get_by_role("button", name="Done").click()
    await expect(page.get_by_text("refund under way")).to_have_count(2)
    reasons = {(await root.get(f"{FAILURES}/{one['id']}"))["refund"]["reason"] for one in made[1:]}
    assert reasons == {"an hour without mitras"}
    await ask_about_refunds(world)
    await expect(page.get_by_text("refund under way")).to_have_count(0, timeout=30_000)


async def test_work_list_and_menu_follow_what_happens_elsewhere(window: BrowserWindow, world: World) -> None:
    await nothing_waits(world)
    page = window.page
    await page.clock.install()
    await window.open("#/failed-pairings")
    await window.settled()
    count = page.get_by_role("navigation", name="Menu").get_by_role("link", name="Failed pairings").locator("span")
    await expect(count).to_have_count(0)
    await a_failure(world, "Dian")
    await page.clock.run_for(16_000)
    await expect(page.get_by_role("row", name="Dian")).to_be_visible()
    await expect(count).to_have_text("1")
    await page.get_by_label("Name or id").fill("Dia")  # the list waits while a filter is written
    await a_failure(world, "Eka")
    async with page.expect_response("**/internal/worklist"):
        await page.clock.run_for(16_000)
    await expect(count).to_have_text("2")
    await expect(page.get_by_label("Name or id")).to_have_value("Dia")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("row", name="Dian")).to_be_visible()
    await expect(page.get_by_role("row", name="Eka")).to_have_count(0)


async def test_short_payment_is_accepted_for_what_it_is(window: BrowserWindow, world: World) -> None:
    await nothing_waits(world)
    payment, page = await world.request(await world.customer("Budi")), window.page
    await world.webhook(payment, paid_amount=5_000)
    await window.open("#/failed-pairings")
    row = page.get_by_role("row", name="Budi")
    await expect(row).to_contain_text("Rp 5.000 of Rp 12.000")
    await row.get_by_role("link").first.click()
    await expect(page.get_by_role("heading", name="Budi, Rp 5.000 of Rp 12.000")).to_be_visible()
    await expect(page.get_by_role("button", name="Refund through the gateway…")).to_be_visible()
    mitra = await world.mitra()
    await page.keyboard.press("a")
    dialog = page.get_by_role("dialog", name="Accept Rp 5.000 of Rp 12.000?")
    await dialog.get_by_role("button", name="Accept", exact=True).click()
    await expect(page.get_by_text("The payment is accepted.")).to_be_visible()
    await expect(page.get_by_text("The customer used this payment for a new search.")).to_be_visible()
    asked = await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda seen: seen["items"])
    await mitra.post(f"/api/mitra/chat-requests/{asked['items'][0]['session_id']}/accept")
    await page.locator(".facts").get_by_role("link", name=payment["payment_request_id"]).click()
    await expect(page.locator(".facts").get_by_text("earned", exact=True).first).to_be_visible()
    await expect(page.locator("making-good")).to_contain_text("Rp 5.000 of Rp 5.000 can still go back.")


async def test_short_payment_is_work_for_operators_and_no_late_timer(window: BrowserWindow, world: World) -> None:
    await nothing_waits(world)
    payment, page = await world.request(await world.customer("Budi")), window.page
    await world.webhook(payment, paid_amount=5_000)
    ended = "UPDATE payment_requests SET expires_at = expires_at + $2 * interval '1 day' WHERE id = $1::text::uuid"
    await world.stack.sql(ended, payment["payment_request_id"], -1)
    try:
        await window.open()
        await expect(page.get_by_role("listitem").filter(has_text="Budi, Rp 5.000 of Rp 12.000")).to_contain_text(
            "paid too little"
        )
        await expect(page.get_by_role("heading", name="Late timers")).to_have_count(0)
    finally:
        await world.stack.sql(ended, payment["payment_request_id"], 1)


@pytest.mark.parametrize("locale", ["en-GB", "id-ID"])
async def test_chips_of_the_work_list_keep_to_their_columns(browser: Browser, world: World, locale: str) -> None:
    await nothing_waits(world)
    payment = await world.request(await world.customer("Budi Santoso"), duration_minutes=30)
    await world.webhook(payment, paid_amount=12_000)
    await a_failure(world, "Wawan Setiawan")
    async with open_window(browser, world.stack.addresses.internal, locale=locale) as window:
        await window.signed_in(await world.operator())
        await window.open("#/failed-pairings")
        await window.settled()
        assert await window.page.evaluate(LONGEST_CHIPS, AGES_S) == [[[], [], False, 2]] * len(AGES_S)


async def test_refund_that_failed_for_want_of_balance_can_be_tried_again(window: BrowserWindow, world: World) -> None:
    failure, page = await a_failure(world, "Reza"), window.page
    await (await world.operator()).post(f"{FAILURES}/{failure['id']}/refund", {})
    await world.stack.sql(
        "UPDATE refunds SET status = 'failed', failure_code = 'INSUFFICIENT_BALANCE', ask_at = NULL, settled_at = now()"
        " WHERE failure_id = $1::uuid",
        failure["id"],
    )
    await window.open("#/failed-pairings?problem=refund_failed")
    await page.get_by_role("row", name="Reza").get_by_role("link").first.click()
    await expect(page.get_by_text("Top it up there, and try the refund again.")).to_be_visible()
    await page.get_by_role("button", name="Try the refund again…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Refund", exact=True).click()
    await expect(page.get_by_text("The refund is under way:")).to_be_visible()
    await world.stack.sql("UPDATE refunds SET ask_at = requested_at WHERE failure_id = $1::uuid", failure["id"])
    await expect(page.get_by_text("paid back")).to_be_visible(timeout=30_000)


async def test_report_leads_to_both_people_and_is_resolved_once(window: BrowserWindow, world: World) -> None:
    customer, _, session = await an_earned_chat(world)
    await customer.post(
        f"/api/shared/chat/sessions/{session['id']}/report", {"reason": "no_answer", "message": "Tidak ada jawaban."}
    )
    root, page = await world.operator(), window.page
    await window.open("#/reports")
    row = page.get_by_role("row").filter(has_text="Tidak ada jawaban.").first
    await expect(row).to_contain_text("Sari (Customer)")
    await row.get_by_role("link").first.click()
    await expect(page.get_by_role("heading", name="Sari about Ayu")).to_be_visible()
    facts = page.locator(".facts")
    await expect(facts.get_by_role("link", name="Ayu")).to_have_attribute("href", f"#/mitras/{session['mitra']['id']}")
    await expect(facts.get_by_text("0 by the customer, 0 by the mitra")).to_be_visible()
    await expect(page.get_by_role("button", name="Give money back…")).to_be_visible()
    await page.get_by_role("button", name="Resolve…").click()
    dialog = page.get_by_role("dialog", name="Resolve this report")
    await dialog.get_by_role("button", name="Resolve").click()
    await expect(dialog.get_by_text("This field is required.")).to_be_visible()
    await dialog.get_by_label("What did you do about it?").select_option("warned")
    await dialog.get_by_label("Note").fill("called the mitra")
    (report,) = [one for one in (await root.get("/internal/reports"))["items"] if one["session_id"] == session["id"]]
    await root.call("PATCH", f"/internal/reports/{report['id']}", {"resolution": "dismissed"})  # a colleague was faster
    await dialog.get_by_role("button", name="Resolve").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("already")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(facts.get_by_text("dismissed")).to_be_visible()
    await expect(page.get_by_role("button", name="Resolve…")).to_have_count(0)
    await window.open("#/reports?status=resolved")
    await expect(page.get_by_role("row").filter(has_text="Tidak ada jawaban.").first).to_contain_text("dismissed")


async def test_earned_money_goes_back_in_parts_by_hand_and_through_the_gateway(
    window: BrowserWindow, world: World
) -> None:
    _, _, session = await an_earned_chat(world)
    page = window.page
    await window.open(f"#/sessions/{session['id']}")
    good = page.locator("making-good")
    await expect(good).to_contain_text("Rp 12.000 of Rp 12.000 can still go back.")
    await good.get_by_role("button", name="Give money back…").click()
    dialog = page.get_by_role("dialog", name="Give back money of Sari?")
    await dialog.get_by_label("Amount (Rp)").fill("12001")
    await dialog.get_by_label("Reason").fill("the mitra was silent")
    await dialog.get_by_role("button", name="Give back").click()
    await expect(dialog.locator(".wrong")).to_have_text("At most Rp 12.000 can still go back.")
    await dialog.get_by_label("Amount (Rp)").fill("5000")
    await dialog.get_by_label("Way").select_option("hand")
    await dialog.get_by_role("button", name="Give back").click()
    await expect(dialog.locator(".wrong")).to_have_text("This field is required.")
    await dialog.get_by_label("Reference").fill("TRF-77")
    await dialog.get_by_role("button", name="Give back").click()
    await expect(page.get_by_text("The refund is recorded.")).to_be_visible()
    await expect(good).to_contain_text("Rp 7.000 of Rp 12.000 can still go back.")
    await expect(good).to_contain_text("TRF-77")
    # The page of a running chat is shown again every few seconds, and keeps what was given back since.
    for amount, left in (("3000", "4.000"), ("4000", "0")):
        await good.get_by_role("button", name="Give money back…").click()
        await dialog.get_by_label("Amount (Rp)").fill(amount)
        await dialog.get_by_label("Reason").fill("the rest")
        await dialog.get_by_role("button", name="Give back").click()
        await expect(good).to_contain_text(f"Rp {left} of Rp 12.000 can still go back.")
        async with page.expect_response(f"**/internal/sessions/{session['id']}?texts=false"):
            pass
        await expect(good).to_contain_text(f"Rp {left} of Rp 12.000 can still go back.")
    await window.open(f"#/payments/{session['payment_request_id']}")
    await expect(good.get_by_role("button", name="Give money back…")).to_have_count(0)
    await world.stack.sql(
        "UPDATE refunds SET ask_at = requested_at WHERE payment_request_id = $1::uuid AND ask_at IS NOT NULL",
        session["payment_request_id"],
    )
    await expect(good.get_by_text("paid back")).to_have_count(3, timeout=30_000)


async def test_refund_whose_answer_is_lost_and_that_is_sent_again_moves_the_money_once(
    window: BrowserWindow, world: World
) -> None:
    _, _, session = await an_earned_chat(world)
    page, root, keys = window.page, await world.operator(), list[str]()
    refunds = f"/internal/payment-requests/{session['payment_request_id']}/refund"

    async def lost(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) > 1:
            await route.continue_()
            return
        await route.fetch()
        # The money has gone back when the operator tries again.
        await ask_about_refunds(world)
        await world.until(lambda: root.get(f"{refunds}s"), lambda seen: seen["items"][0]["status"] == "succeeded")
        await route.abort("internetdisconnected")

    await page.route(f"**{refunds}", lost)
    await window.open(f"#/payments/{session['payment_request_id']}")
    good, dialog = page.locator("making-good"), page.get_by_role("dialog")
    await good.get_by_role("button", name="Give money back…").click()
    await dialog.get_by_label("Amount (Rp)").fill("5000")
    await dialog.get_by_label("Reason").fill("the mitra was late")
    await dialog.get_by_role("button", name="Give back").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("can't be reached")
    await dialog.get_by_role("button", name="Give back").click()
    await expect(good).to_contain_text("Rp 7.000 of Rp 12.000 can still go back.")
    # The same wish in another dialog is another refund.
    await good.get_by_role("button", name="Give money back…").click()
    await dialog.get_by_label("Amount (Rp)").fill("5000")
    await dialog.get_by_label("Reason").fill("the mitra was late")
    await dialog.get_by_role("button", name="Give back").click()
    await expect(good).to_contain_text("Rp 2.000 of Rp 12.000 can still go back.")
    assert [keys[0] == keys[1], keys[1] == keys[2]] == [True, False]


async def refuse_then_enter_code(page: Page, me: Enrolled, button: str) -> None:
    """Cancel the dialog that asks for a fresh code, send the form again by its button, and enter the code."""
    asked, form = page.get_by_role("dialog", name="Enter a code"), page.get_by_role("dialog")
    await asked.get_by_role("button", name="Cancel").click()
    await expect(form.get_by_role("alert")).to_contain_text("Confirm this with your second factor")
    await form.get_by_role("button", name=button, exact=True).click()
    await me.forget_steps()
    await asked.get_by_label("Code", exact=True).fill(me.code())
    await asked.get_by_role("button", name="Confirm").click()


async def test_making_good_goes_on_after_a_fresh_code(browser: Browser, world: World) -> None:
    me, (_, _, session) = await an_enrolled_operator(world, AREAS), await an_earned_chat(world)
    async with open_window(browser, world.stack.addresses.internal) as window:
        page, dialog = window.page, window.page.get_by_role("dialog")
        await window.signed_in(me.client)
        await window.open(f"#/sessions/{session['id']}")
        await page.get_by_role("button", name="Give money back…").click()
        await dialog.get_by_label("Amount (Rp)").fill("5000")
        await dialog.get_by_label("Reason").fill("the mitra was silent")
        await dialog.get_by_role("button", name="Give back").click()
        await refuse_then_enter_code(page, me, "Give back")
        await expect(page.get_by_text("The gateway is asked for the refund.")).to_be_visible()
        await expect(page.locator("making-good")).to_contain_text("Rp 7.000 of Rp 12.000 can still go back.")


async def test_refunds_of_several_failures_go_on_after_a_fresh_code(browser: Browser, world: World) -> None:
    await nothing_waits(world)
    for name in ("Bayu", "Agus"):
        await a_failure(world, name)
    me = await an_enrolled_operator(world, AREAS)
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.signed_in(me.client)
        await window.open("#/failed-pairings")
        await page.get_by_label("Choose all that can be refunded (2)").check()
        await page.get_by_role("button", name="Refund 2, Rp 24.000…").click()
        await page.get_by_role("dialog").get_by_role("button", name="Refund", exact=True).click()
        await refuse_then_enter_code(page, me, "Refund")
        await expect(page.get_by_role("dialog", name="2 of 2 refunds are asked for")).to_be_visible()


async def test_running_chat_is_followed_with_who_wrote_and_marked_without_a_reply(
    window: BrowserWindow, world: World
) -> None:
    customer, mitra, session = await an_earned_chat(world)
    phone, page = await customer.open("chat"), window.page
    try:
        await window.open(f"#/sessions/{session['id']}")
        facts = page.locator(".facts").first
        await expect(page.get_by_role("timer")).to_have_text(re.compile(r"^\d+:\d\d$"))
        await expect(facts).to_contain_text("0 by the customer, 0 by the mitra")
        await phone.say(session["id"], "Halo, Kak")
        await expect(facts).to_contain_text("1 by the customer, 0 by the mitra")
    finally:
        await phone.close()
    moved = "UPDATE chat_messages SET created_at = created_at + $2 * interval '1 minute' WHERE session_id = $1::uuid"
    await world.stack.sql(moved, session["id"], -6)
    try:
        await window.open("#/sessions?no_reply=true")
        await expect(page.get_by_role("row", name="Sari").first).to_contain_text("no reply")
        await window.open()
        card = page.get_by_role("heading", name="Running chats without a reply").locator("..")
        await expect(card.get_by_role("link").first).to_contain_text("Ayu")
    finally:
        await world.stack.sql(moved, session["id"], 6)  # into the paid time again
    async with world.setting(early_end_customer_enabled=True):
        await finish(customer, mitra, session["id"])


async def test_overview_shows_health_and_work_only_of_the_role(browser: Browser, world: World) -> None:
    await a_failure(world, "Fajar")
    clerk = await an_operator(world, {"failed_pairings": "read", "activity": "read"})
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.signed_in(clerk.client)
        await window.open()
        await expect(page.get_by_role("list", name="Parts of the service")).to_contain_text("timers: ok")
        await expect(page.get_by_role("heading", name="Paid without a chat, newest first")).to_be_visible()
        await expect(page.get_by_role("link", name="Reports")).to_have_count(0)


@pytest.mark.parametrize("locale", ["en-GB", "id-ID"])
async def test_queues_are_accessible_in_both_languages(browser: Browser, world: World, locale: str) -> None:
    customer, _, session = await an_earned_chat(world)
    await customer.post(f"/api/shared/chat/sessions/{session['id']}/report", {"reason": "other"})
    failure = await a_failure(world, "Gita")
    until = (await world.service_time() + dt.timedelta(hours=1)).isoformat()
    root = await world.operator()
    await root.call("PATCH", f"{FAILURES}/{failure['id']}", {"snoozed_until": until, "note": "waits"})
    report = (await root.get("/internal/reports"))["items"][0]["id"]
    async with open_window(browser, world.stack.addresses.internal, locale=locale) as window:
        await window.signed_in(root)
        for address in (f"#/failed-pairings/{failure['id']}", "#/failed-pairings", "#/reports", f"#/reports/{report}"):
            await window.open(address)
            await window.settled()
            await no_violations_in_both_themes(window, address)


async def test_file_of_the_work_list_has_what_the_page_shows(window: BrowserWindow, world: World) -> None:
    await nothing_waits(world)
    root, page = await world.operator(), window.page
    acted, mine, other = [await a_failure(world, name) for name in ("Hana", "Indra", "Joko")]
    await root.call("PATCH", f"{FAILURES}/{acted['id']}", {"operator_action": "no_action"})
    me = (await root.get("/internal/auth/me"))["id"]
    await root.call("PATCH", f"{FAILURES}/{mine['id']}", {"assigned_to": me})
    await window.open("#/failed-pairings?assigned_to=mine")
    await expect(page.get_by_role("row", name="Indra")).to_be_visible()
    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Download as CSV").click()
    file = (await (await saved.value).path()).read_text()
    assert [one["id"] in file for one in (acted, mine, other)] == [False, True, False]
