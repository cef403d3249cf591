"""The customer app shows the usual wait, and asks before it pays while no mitra is available."""

import re

import pytest
from playwright.async_api import expect

from tests.apps.people import CustomerApp
from tests.pages.browser import BrowserWindow
from tests.pages.test_pages import check_page_fits_window, no_violations
from tests.stack import World

pytestmark = pytest.mark.anyio

USUAL = "Usually a mitra accepts within 40 s, for 9 of 10 customers within 2 min 5 s."


async def test_usual_wait_is_shown_before_and_after_the_payment(dewi: CustomerApp, world: World) -> None:
    async with world.estimate(p50=40, p90=125):
        await dewi.start("Dewi")
        await expect(dewi.page.get_by_text(USUAL)).to_be_visible()
        await dewi.choose_minutes(12)
        await dewi.sees_heading("Ways to pay")
        await expect(dewi.page.get_by_text(USUAL)).to_be_visible()
    await dewi.pay()
    await dewi.sees_heading("Looking for your mitra")
    await expect(dewi.page.get_by_text(USUAL)).to_be_visible()  # the estimate is gone, the promise is stored


async def test_customer_chooses_to_wait_while_no_mitra_is_available(dewi: CustomerApp, world: World) -> None:
    async with world.setting(refuse_unservable_payments=True):
        await dewi.start("Dewi")
        await dewi.choose_minutes(12)
        sheet = dewi.page.get_by_role("dialog", name="No mitra is available at the moment")
        await expect(sheet).to_be_visible()
        window = BrowserWindow(dewi.page.context, dewi.page, "")
        await no_violations(window, "no mitra is available")
        await check_page_fits_window(window, "no mitra is available")
        await dewi.press("Not now", within=sheet)
        await expect(sheet).to_have_count(0)
        await dewi.press(re.compile("^Pay Rp"))
        await dewi.press("Pay and wait", within=sheet)
        await dewi.pay()
        await dewi.sees_heading("Looking for your mitra")
        await expect(dewi.page.get_by_text("We ask every mitra who comes online.")).to_be_visible()
