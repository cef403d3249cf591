"""What the customer app shows about money: another try with it, a refund, and a blocked account."""

import datetime as dt
import re

import pytest
from playwright.async_api import expect

from tests.apps.people import CustomerApp, answered
from tests.apps.test_accessibility import Inspector
from tests.apps.test_client_behaviour import at_home, with_history
from tests.http.pairing.steps import acting
from tests.stack import World

pytestmark = pytest.mark.anyio


async def test_rejected_customer_asks_another_known_mitra_with_the_same_money(world: World, dewi: CustomerApp) -> None:
    see = Inspector(dewi)
    ayu, bima, citra = [await world.mitra(name, online=name != "Citra") for name in ("Ayu", "Bima", "Citra")]
    await at_home(dewi)
    for mitra in (ayu, bima, citra):
        await with_history(world, dewi, mitra)
    await dewi.open(f"customer/?lang=en#/history/{ayu.user['id']}")
    async with world.setting(returning_chat_confirmation_timeout_seconds=120):  # a browser may be slow
        await dewi.press("Chat with Ayu again")
        await dewi.choose_minutes(12)
        await dewi.pay()
        await answered(world, ayu, "reject")
        popup = dewi.page.get_by_role("dialog", name="Ayu is not available")
        await dewi.press("Close", within=popup)
        await see("failed search")
        await dewi.press("Ask another mitra")
        await dewi.press("Choose another mitra", within=popup)
        known = dewi.page.get_by_role("dialog", name="Ask another mitra you know")
        for name, badge in (("Ayu", "Asked already"), ("Citra", "Offline")):
            await expect(known.get_by_role("listitem").filter(has_text=name)).to_contain_text(badge)
        await see("known mitras")
        await dewi.press("Ask Bima", within=known)
        await expect(dewi.page.get_by_role("heading", name="Waiting for Bima")).to_be_focused()
        await expect(dewi.page.get_by_role("dialog")).to_have_count(0)
        await answered(world, bima, "reject")
        popup = dewi.page.get_by_role("dialog", name="Bima is not available")
        await expect(popup).to_be_visible()
        (row,) = await world.stack.sql(
            "SELECT id::text FROM payment_requests WHERE customer_id = $1::uuid AND targeted_mitra_id IS NOT NULL",
            await dewi.customer_id(),
        )
        await acting(world, {"payment_request_id": row["id"]})
        await dewi.press("Choose another mitra", within=popup)
        await dewi.press("Ask Ayu", within=known)
    await expect(dewi.page.get_by_text("An operator has already resolved this request.")).to_be_visible()
    await dewi.press("Close", within=popup)
    await expect(dewi.page.get_by_text("Your money was refunded.")).to_be_visible()
    await expect(dewi.page.get_by_role("button", name="Ask another mitra")).to_be_hidden()


async def test_blocked_customer_reads_until_when_and_who_can_help(world: World, dewi: CustomerApp) -> None:
    await dewi.start("Dewi")
    until = (await world.service_time() + dt.timedelta(days=2)).replace(hour=3, minute=15)
    operator, block = await world.operator(), f"/internal/customers/{await dewi.customer_id()}"
    await operator.post(f"{block}/block", {"reason": "Insulted three mitras", "until": until.isoformat()})
    await dewi.choose_minutes(12)
    sheet = dewi.page.get_by_role("dialog", name="Your account is blocked")
    await expect(sheet).to_contain_text(re.compile(r"until \d+ \w+ \d{4},? (at )?10:15"))
    await Inspector(dewi)("blocked account")
    await dewi.press("Ask our team for help", within=sheet)
    await dewi.press("Close", within=dewi.page.get_by_role("dialog", name="Talk to our team"))
    await dewi.press("Close", within=sheet)
    await operator.post(f"{block}/unblock")
    await dewi.choose_minutes(12)
    await expect(dewi.page.get_by_role("dialog", name="Pay Rp 12.000")).to_be_visible()


async def test_refund_of_a_chat_is_said_and_listed_with_the_transactions(world: World, dewi: CustomerApp) -> None:
    session_id = await dewi.chat_with(await world.mitra("Ayu"))
    (row,) = await world.stack.sql(
        "SELECT payment_request_id::text AS id FROM chat_sessions WHERE id = $1::uuid", session_id
    )
    given = {"amount": 5_000, "reason": "The mitra was silent", "by_hand": True, "reference": "TRF-1"}
    await (await world.operator()).post(f"/internal/payment-requests/{row['id']}/refund", given)
    await expect(dewi.page.get_by_text("Rp 5.000 was given back to you.")).to_be_visible()
    await dewi.open("customer/?lang=en#/payments")
    await expect(dewi.page.get_by_text("Rp 5.000 refunded")).to_be_visible()
    await dewi.page.get_by_role("radio", name="Charged").check()
    await expect(dewi.page.get_by_role("link", name="Refund")).to_contain_text("\u2212Rp 5.000")
    await Inspector(dewi)("transactions")


async def test_customer_whose_search_an_operator_ended_reads_who_did_it(world: World, dewi: CustomerApp) -> None:
    await dewi.start("Dewi")
    await dewi.choose_minutes(12)
    await dewi.pay()
    searches, root = "SELECT id::text FROM chat_sessions WHERE customer_id = $1::uuid", await world.operator()
    customer_id = await dewi.customer_id()
    (search,) = await world.until(lambda: world.stack.sql(searches, customer_id), lambda found: found)
    await dewi.sees_heading("Looking for your mitra")
    await root.post(f"/internal/sessions/{search['id']}/end", {"reason": "no mitra today"})
    said = "Our team ended the search, and decides about your money."
    await expect(dewi.page.get_by_text(said)).to_be_visible()
