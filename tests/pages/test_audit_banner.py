"""Every page of the control center has a banner while rows break a rule of the ledger audit."""

import os
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from core.desk.audits.rules import Depth
from tests.audits import make_due
from tests.http.operators.steps import PASSWORD, an_operator
from tests.pages.browser import open_window
from tests.stack import World

pytestmark = pytest.mark.anyio
RULE, WRITE = "seq is 1 to n without gaps", "UPDATE chat_sessions SET last_seq = $2 WHERE id = $1"
WORDS = {
    "en": ("The ledger audit has found violations", "Ledger audit", "1 since"),
    "id": ("Audit pembukuan menemukan pelanggaran", "Audit pembukuan", "1 sejak"),
}


async def audited(world: World, rules: set[str]) -> None:
    """Have the ledger audited until these rules are broken."""
    operator = await world.operator()
    await make_due(world, Depth.FULL)

    async def look() -> Any:
        return {one["rule"] for one in (await operator.get("/internal/ledger/broken-rules"))["items"]}

    await world.until(look, lambda found: found == rules, timeout=60)


async def test_banner_names_the_broken_rule_on_every_page_until_it_is_repaired(browser: Browser, world: World) -> None:
    session_id = (await world.paid(await world.customer()))["session_id"]
    await audited(world, set())
    stranger = await an_operator(world, {"customers": "read"})
    await world.stack.sql(WRITE, session_id, 3)
    try:
        await audited(world, {RULE})
        for language, (found, link, since) in WORDS.items():
            locale = {"en": "en-GB", "id": "id-ID"}[language]
            async with open_window(browser, world.stack.addresses.internal, locale=locale) as window:
                await window.signed_in(await world.operator())
                for address in ("#/", "#/settings"):
                    await window.open(address)
                    await window.settled()
                    banner = window.page.get_by_role("alert").filter(has_text=found)
                    await expect(banner).to_contain_text(RULE)
                    await expect(banner).to_contain_text(since)
                if folder := os.environ.get("PICTURES"):
                    await window.page.screenshot(path=f"{folder}/banner-{language}.png")
                await banner.get_by_role("link", name=link).click()
                await expect(window.page).to_have_url(f"{window.home}/internal/#/ledger")
        async with open_window(browser, world.stack.addresses.internal) as window:
            await window.open("#/customers")
            await window.sign_in(stranger.email, PASSWORD)
            await window.settled()
            await expect(window.page.locator("audit-banner")).to_have_count(0)
    finally:
        await world.stack.sql(WRITE, session_id, 0)
    await audited(world, set())
    async with open_window(browser, world.stack.addresses.internal) as window:
        await window.signed_in(await world.operator())
        async with window.page.expect_response("**/internal/ledger/broken-rules"):
            await window.open("#/")
        await window.settled()
        await expect(window.page.locator("audit-banner .notice")).to_have_count(0)
