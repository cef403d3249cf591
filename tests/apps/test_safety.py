"""Reporting and blocking the other party in both apps, as app stores demand it: from the chat and after it."""

from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.apps.people import NUMBERS, App, MitraApp, customer_app, mitra_account, mitra_app
from tests.apps.test_accessibility import Inspector
from tests.stack import World

pytestmark = pytest.mark.anyio


async def report(app: App, name: str, reason: str, see: Inspector | None = None) -> None:
    """Report the other party, from the open chat: two presses come to the form, and the keyboard fills it."""
    await app.press("More")
    await app.press(f"Report {name}")
    sheet = app.page.get_by_role("dialog", name=f"Report {name}")
    await app.press("Send the report", within=sheet)
    await expect(sheet.get_by_role("alert").filter(has_text="Choose a reason.")).to_be_visible()
    await expect(sheet.get_by_role("radio", name="No answer")).to_be_focused()
    if see:
        await see("report")
    await app.page.keyboard.press("Space")
    while not await sheet.get_by_role("radio", name=reason).is_checked():
        await app.page.keyboard.press("ArrowDown")
    await app.page.keyboard.press("Tab")
    await app.page.keyboard.type("Kasar sekali.")
    await app.page.keyboard.press("Tab")
    await app.page.keyboard.press("Enter")
    await expect(app.page.get_by_role("dialog", name="Our team has your report")).to_be_visible()


async def reports(world: World, session_id: str) -> list[tuple[Any, ...]]:
    rows = await world.stack.sql(
        "SELECT reporter, reason, message FROM session_reports WHERE session_id = $1::uuid", session_id
    )
    return [tuple(row) for row in rows]


async def blocks(world: World, session_id: str) -> list[str]:
    rows = await world.stack.sql("SELECT blocked_by FROM blocks WHERE session_id = $1::uuid", session_id)
    return [row["blocked_by"] for row in rows]


async def unblock(app: App, name: str, see: Inspector) -> None:
    """Lift the block in the list of blocks."""
    await see("blocked people")
    await app.press(f"Unblock: {name}")
    await app.press("Unblock", within=app.page.get_by_role("dialog", name=f"Unblock {name}?"))
    await expect(app.page.get_by_text("You have not blocked anyone.")).to_be_visible()
    await expect(app.page.get_by_role("heading", name="Blocked people")).to_be_focused()


async def test_customer_reports_and_blocks_the_mitra_from_the_chat(browser: Browser, world: World) -> None:
    mitra = await world.mitra("Ayu")
    async with customer_app(browser, world) as dewi:
        see = Inspector(dewi)
        session_id = await dewi.chat_with(mitra)
        await report(dewi, "Ayu", "Harassment or threats", see)
        await dewi.press("Not now")
        assert await reports(world, session_id) == [("customer", "harassment", "Kasar sekali.")]
        await report(dewi, "Ayu", "Something else")  # the service has one already
        await see("question after a report")
        await dewi.press("Block Ayu")
        await expect(dewi.page.get_by_text("Ayu is blocked.")).to_be_visible()
        assert (len(await reports(world, session_id)), await blocks(world, session_id)) == (1, ["customer"])
        await dewi.write("Obrolan ini masih berjalan.")
        await dewi.sees_state("Obrolan ini", "Sent")
        await dewi.open(f"customer/?{dewi.query}#/profile")
        await dewi.page.get_by_role("link", name="Blocked people").click()
        await unblock(dewi, "Ayu", see)
        assert await blocks(world, session_id) == []


async def test_mitra_blocks_and_reports_the_customer_after_the_chat(browser: Browser, world: World) -> None:
    await mitra_account(world, "Bima", NUMBERS[0])
    async with mitra_app(browser, world) as bima:
        see = Inspector(bima)
        await bima.start(NUMBERS[0])
        session_id = await end_a_chat(world, bima)
        await bima.press("More")
        await bima.press("Block Rina")
        question = bima.page.get_by_role("dialog", name="Block Rina?")
        await expect(question).to_contain_text("Rina isn't told.")
        await see("question to block")
        await bima.press("Block Rina", within=question)
        await expect(bima.page.get_by_text("Rina is blocked.")).to_be_visible()
        assert await blocks(world, session_id) == ["mitra"]
        await report(bima, "Rina", "Scam, or asking for money", see)
        await bima.press("Not now")
        assert await reports(world, session_id) == [("mitra", "scam", "Kasar sekali.")]
        await bima.open(f"mitra/?{bima.query}#/account")
        await bima.page.get_by_role("link", name="Blocked people").click()
        await unblock(bima, "Rina", see)
        assert await blocks(world, session_id) == []


async def end_a_chat(world: World, app: MitraApp) -> str:
    """Have a chat with a customer, end it, and open it from the list of earlier chats. Return its id."""
    payment = await world.paid(await world.customer("Rina"))
    await app.accept("Rina")
    session_id = payment["session_id"]
    await (await world.operator()).post(f"/internal/sessions/{session_id}/end", {"reason": "end of the test"})
    await app.say_goodbye("Terima kasih, Rina.")
    await app.open(f"mitra/?{app.query}#/history")
    await app.page.get_by_role("link", name="Rina").click()
    await expect(app.page.get_by_role("heading", name="Rina")).to_be_visible()
    return session_id
