"""What waits for operators, in a browser: the work list, reports, and making good."""

import re
from typing import Any

import pytest
from playwright.async_api import expect

from tests.http.privacy.steps import finish
from tests.pages.browser import BrowserWindow
from tests.stack import World
from tools.driving.client import Client

pytestmark = pytest.mark.anyio
AREAS = {"failed_pairings": "write", "payments": "write", "reports": "write", "sessions": "read", "customers": "read"}


async def an_earned_chat(world: World) -> tuple[Client, Client, dict[str, Any]]:
    """Create a running chat. Return the customer, the mitra, and the session as operators see it."""
    customer, mitra = await world.customer("Sari"), await world.mitra("Ayu")
    session_id = await world.session(customer, mitra)
    return customer, mitra, await (await world.operator()).get(f"/internal/sessions/{session_id}")


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
