"""Every page of the control center: its content, accessibility, both languages, and what a role must not see."""

import asyncio
import json
import re
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import Browser, Route, expect

from tests.http.operators.steps import an_operator
from tests.pages.browser import DESK, PHONE, BrowserWindow, open_window
from tests.pages.scene import GOODBYES, addresses, play
from tests.stack import World

pytestmark = pytest.mark.anyio

# WCAG 2.2 AA, and the best practices of axe.
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
AXE: dict[str, Any] = {"runOnly": TAGS, "resultTypes": ["violations"]}
COLOURS: dict[str, Any] = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
NOT_COLOURS: dict[str, Any] = {**AXE, "rules": {"color-contrast": {"enabled": False}}}
# A phone has the same colours.
LOOKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {"desk": (DESK, AXE), "phone": (PHONE, NOT_COLOURS)}
ANIMATIONS_ENDED = """() => Promise.all(document.getAnimations()
  .filter((one) => one.effect.getComputedTiming().endTime < Infinity).map((one) => one.finished.catch(() => {})))"""


async def no_violations(window: BrowserWindow, where: str, options: dict[str, Any] = AXE) -> None:
    """Check that axe finds no violation on the page as it is shown."""
    run = f"axe.run({json.dumps(options)}).then((found) => found.violations)"
    found = await window.page.evaluate(f"'axe' in window ? {run} : null")
    if found is None:  # half a megabyte, loaded once for each document
        found = await window.page.evaluate(f"{AXE_SCRIPT};{run}")
    told = [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found]
    assert told == [], where


async def no_violations_in_both_themes(window: BrowserWindow, where: str, options: dict[str, Any] = AXE) -> None:
    """Check that axe finds no violation in light, and in dark, which changes only colours."""
    looks: dict[Literal["light", "dark"], dict[str, Any]] = {"light": options, "dark": COLOURS}
    for scheme, checked in looks.items():
        await window.page.emulate_media(color_scheme=scheme)
        await window.page.evaluate(ANIMATIONS_ENDED)  # while an element fades in, its colours have less contrast
        await no_violations(window, f"{where}, {scheme}", checked)


async def check_page_fits_window(window: BrowserWindow, where: str) -> None:
    """Check that the page fits into the window's width, so that users need not scroll sideways (WCAG 1.4.10)."""
    width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await window.page.evaluate(width) == 0, where


# Words, and amounts with "Rp", that stand on two lines. Ids may break anywhere.
BROKEN_WORDS = """() => {
  const found = [];
  const others = ".id, code, pre, .hidden-label, thead, option, details:not([open]) > :not(summary)";
  const texts = document.createTreeWalker(document.querySelector("sesi-app"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.parentElement.closest(others)) continue;
    for (const word of text.data.matchAll(/[^ \\n\\t\\u2013-]+/g)) {
      if (word[0].length > 24 || word[0].includes("/")) continue;
      const range = new Range();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].filter(({ width }) => width).map(({ top }) => Math.round(top)));
      if (lines.size > 1) found.push(word[0]);
    }
  }
  return found;
}"""


async def check_pages(window: BrowserWindow, look: str, pages: list[tuple[str, str]]) -> None:
    """Check pages, given as name and address, in a signed-in window."""
    check = no_violations_in_both_themes if look == "desk" else no_violations
    for name, address in pages:
        await window.open(address)
        await window.settled()
        await expect(window.page.locator(".notice.bad[role=alert]")).to_have_count(0)
        await check(window, f"{name}, {look}", LOOKS[look][1])
        await check_page_fits_window(window, f"{name}, {look}")
        assert await window.page.evaluate(BROKEN_WORDS) == [], f"{name}, {look}"


@pytest.mark.parametrize("look", LOOKS)
async def test_every_page_is_accessible_in_every_look(browser: Browser, world: World, look: str) -> None:
    pages = list(addresses(await play(world)).items())
    size, options = LOOKS[look]
    check = no_violations_in_both_themes if look == "desk" else no_violations
    home = world.stack.addresses.internal
    async with open_window(browser, home, **size) as first, open_window(browser, home, **size) as second:
        await first.open()
        await expect(first.page.get_by_label("E-mail")).to_be_visible()
        await check(first, f"sign-in, {look}", options)
        async with asyncio.TaskGroup() as group:  # each window waits for the service half of its time
            for window, some in ((first, pages[::2]), (second, pages[1::2])):
                await window.signed_in(await world.operator())
                group.create_task(check_pages(window, look, some))


async def test_session_page_shows_goodbyes_and_the_running_search(window: BrowserWindow, world: World) -> None:
    scene, page = await play(world), window.page
    await window.open(f"#/sessions/{scene.session}")
    await window.settled()
    facts = page.locator(".facts")
    for side, goodbye in GOODBYES.items():
        await expect(facts.get_by_text(f"Goodbye, {side.capitalize()}")).to_be_visible()
        await expect(facts.get_by_text(goodbye)).to_be_visible()
        await expect(page.locator(".timeline").get_by_text(goodbye)).to_be_visible()
    searching = await world.paid(await world.customer("Eka"))
    await window.open(f"#/sessions/{searching['session_id']}")
    await expect(facts.get_by_text("Mitras invited")).to_be_visible()
    await expect(facts.get_by_text("Search ends")).to_be_visible()


async def test_dialogs_are_accessible_and_return_the_focus(window: BrowserWindow, world: World) -> None:
    scene, page = await play(world), window.page
    for address, button in (
        (f"#/failed-pairings/{scene.failure}", "Refunded"),
        (f"#/failed-pairings/{scene.failure}?", "Refund through the gateway…"),
        (f"#/payments/{scene.pending}", "Confirm by hand…"),
        ("#/mitras", "Add a mitra…"),
        ("#/pricing", "Add a tier…"),
        ("#/pricing?", "Change the discount…"),
        ("#/operators", "Add an operator…"),
        ("#/roles", "Add a role…"),
        (f"#/webhooks/{scene.webhook}", "Replay…"),
        (f"#/sessions/{scene.running}", "End the session…"),
    ):
        await window.open(address)
        await window.settled()
        opener = page.get_by_role("button", name=button)
        await opener.click()
        await expect(page.get_by_role("dialog")).to_be_visible()
        await no_violations(window, button)
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(opener).to_be_focused()


async def test_every_page_is_shown_in_indonesian(browser: Browser, world: World) -> None:
    pages = addresses(await play(world))
    async with open_window(browser, world.stack.addresses.internal, locale="id-ID") as window:
        await window.open()
        await expect(window.page.get_by_role("heading", name="Pusat kendali Sesi")).to_be_visible()
        await window.signed_in(await world.operator())
        headings = set()
        for address in pages.values():
            await window.open(address)
            await window.settled()
            assert await window.page.evaluate("document.documentElement.lang") == "id"
            headings.add(await window.page.locator("h1").inner_text())
        assert {"Ringkasan", "Gagal dipasangkan", "Pembayaran", "Pengaturan", "Harga", "Peran"} <= headings
        await window.open(pages["failed-pairing"])
        await expect(window.page.locator(".why")).to_contain_text("Pelanggan membayar lalu pergi sebelum mitra datang.")
        await expect(window.page.get_by_role("heading", name="Rp 12.000")).to_be_visible()
        await window.page.get_by_label("Bahasa").select_option("en")
        await expect(window.page.locator(".why")).to_contain_text(
            "The customer paid and cancelled before a mitra accepted."
        )


async def test_role_sees_only_what_its_permissions_allow(browser: Browser, world: World) -> None:
    scene = await play(world)
    clerk = await an_operator(world, {"failed_pairings": "read", "customers": "read"})
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.signed_in(clerk.client)
        await window.open(f"#/failed-pairings/{scene.failure}")
        await window.settled()
        menu = page.get_by_role("navigation", name="Menu").get_by_role("link")
        entries = [words.split("\n")[0] for words in await menu.all_inner_texts()]  # without the number of failures
        assert entries == ["Overview", "Failed pairings", "Customers", "My account"]
        await expect(page.get_by_text("Your role can view this but not act on it.")).to_be_visible()
        await expect(page.get_by_role("button", name="Refunded")).to_have_count(0)
        await window.open("#/pricing")
        await expect(page.get_by_role("alert")).to_contain_text("Your role doesn't allow you to see this.")
        await window.open(f"#/customers/{scene.customer}")
        await expect(page.get_by_text("Phone and e-mail are masked")).to_be_visible()
        await window.open("#/no/such/page")
        await expect(page.get_by_role("alert")).to_contain_text("Page not found.")


async def test_filters_survive_back_button_and_reload(window: BrowserWindow, world: World) -> None:
    scene, page = await play(world), window.page
    await window.open("#/payments")
    await window.settled()
    await page.get_by_label("State").select_option("pending")
    await page.get_by_label("Name or id").fill(scene.pending)
    await page.get_by_role("button", name="Search").click()
    await expect(page).to_have_url(f"{window.home}/internal/#/payments?q={scene.pending}&status=pending")
    await page.get_by_role("table").get_by_role("link").first.click()
    await expect(page.get_by_role("heading", name="Payment", exact=True)).to_be_focused()
    await page.go_back()
    await expect(page.get_by_label("Name or id")).to_have_value(scene.pending)
    await expect(page.get_by_label("State")).to_have_value("pending")
    await page.reload()
    await expect(page.get_by_label("Name or id")).to_have_value(scene.pending)
    await page.get_by_role("link", name="Clear").click()
    await expect(page.get_by_label("State")).to_have_value("")
    await page.get_by_label("Name or id").fill("nobody is called like this")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Nothing matches these filters.")).to_be_visible()
    times = page.locator("time")
    await window.open(f"#/payments/{scene.pending}")
    await expect(times.first).to_have_attribute(
        "title", re.compile(r"\d\d:\d\d:\d\d\.\d{3}.*(Western Indonesia Time|GMT\+7)")
    )


async def test_page_reports_an_unreachable_service_and_recovers(window: BrowserWindow, world: World) -> None:
    page = window.page
    await window.open("#/customers")
    await window.settled()
    await page.route("**/internal/mitras*", lambda route: route.abort())
    await page.get_by_role("link", name="Mitras", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("The service can't be reached.")
    await page.unroute("**/internal/mitras*")
    window.troubles.clear()  # the browser logged the lost connection, and the page has shown it
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("search")).to_be_visible()


async def test_names_with_markup_are_shown_as_text(window: BrowserWindow, world: World) -> None:
    name = "<img src=x onerror=alert(1)><b>Dewi</b>"
    customer = await world.customer(name)
    payment = await world.request(customer)
    await window.open(f"#/payments/{payment['payment_request_id']}")
    await expect(window.page.get_by_role("heading", name=f"{name}, Rp 12.000")).to_be_visible()
    await world.raw_webhook(b"<script>alert(1)</script>")
    await window.open("#/webhooks?processing_result=invalid_payload")
    await window.page.get_by_role("table").get_by_role("link").first.click()
    await expect(window.page.locator("pre")).to_have_text("<script>alert(1)</script>")
    assert await window.page.locator("main img, main script, main b").count() == 0


async def test_refused_filter_stays_editable(window: BrowserWindow) -> None:
    page = window.page
    await window.open("#/activity/log?mitra_id=Ayu")
    await expect(page.get_by_role("alert")).to_contain_text("mitra_id")
    mitra = page.get_by_role("search").get_by_label("Mitra")
    await expect(mitra).to_have_value("Ayu")
    await mitra.select_option("")
    await page.get_by_role("button", name="Search").click()
    await expect(page.get_by_role("alert")).to_have_count(0)
    async with page.expect_request("**/internal/mitra-activity/log*"):
        await page.get_by_role("button", name="Search").click()  # pressing again with the same query reloads
    for address in ("#/payments/%", "#/mitras/..%2Foperators"):
        await window.open(address)
        await expect(page.get_by_role("alert")).to_contain_text("Page not found.")


async def test_overview_shows_the_newest_answer_and_keeps_it_while_unreachable(
    window: BrowserWindow, world: World
) -> None:
    page = window.page
    await play(world)
    searching = page.get_by_role("link", name="customers searching").locator(".value")
    held: list[Route] = []
    asked = 0

    async def numbered(route: Route) -> None:
        nonlocal asked
        asked += 1
        if asked == 2:  # this answer is held back
            held.append(route)
        elif asked > 3:
            await route.fulfill(status=503, json={"error": {"code": "UNAVAILABLE", "message": "Not now."}})
        else:
            searches = asked
            answer = await route.fetch()
            await route.fulfill(json=await answer.json() | {"searching": searches})

    async def count() -> int:
        return asked

    await page.clock.install()
    await page.route("**/internal/overview", numbered)
    await window.open()
    await expect(searching).to_have_text("1")
    link = page.get_by_role("heading", name="Paid without a chat, newest first").locator("..").get_by_role("link").first
    await link.focus()
    await page.clock.run_for(6_000)
    await world.until(count, lambda seen: seen == 2)
    await page.clock.run_for(6_000)  # no further request while the slow one is pending
    assert asked == 2
    async with page.expect_response("**/internal/overview"):
        await held[0].continue_()
    await expect(searching).to_have_text("0")
    await page.clock.run_for(6_000)
    await expect(searching).to_have_text("3")
    await expect(link).to_be_focused()
    await page.clock.run_for(6_000)
    await expect(page.get_by_text("Showing older data")).to_be_visible()
    await expect(searching).to_have_text("3")
    await expect(link).to_be_focused()


async def test_overview_names_the_parts_of_the_service_that_fail(window: BrowserWindow) -> None:
    page = window.page

    async def without_gateway(route: Route) -> None:
        answer = await route.fetch()
        found = await answer.json()
        broken = {"status": "down", "message": "It does not answer."}
        parts = [{**part, **broken} if part["name"] == "gateway" else part for part in found["parts"]]
        await route.fulfill(json={"status": "down", "parts": parts})

    await page.route("**/internal/health", without_gateway)
    await window.open()
    card = page.get_by_role("heading", name="Parts of the service that fail").locator("..")
    failing = card.get_by_role("list").first.get_by_role("listitem").filter(has_text="payment gateway")
    await expect(failing).to_contain_text("It does not answer.")
    await no_violations(window, "health")


async def test_link_pressed_while_the_overview_reloads_still_works(window: BrowserWindow, world: World) -> None:
    page = window.page
    asked = 0

    async def numbered(route: Route) -> None:
        nonlocal asked
        asked += 1
        searches = asked
        answer = await route.fetch()
        await route.fulfill(json=await answer.json() | {"searching": searches})

    await page.clock.install()
    await page.route("**/internal/overview", numbered)
    await window.open()
    link = page.get_by_role("link", name="customers searching")
    await expect(link.locator(".value")).to_have_text("1")

    async def looked_again() -> None:
        async with page.expect_response("**/internal/overview"):
            await page.clock.run_for(6_000)
        # When this request is answered, the one before has been handled.
        await page.evaluate("fetch(location.pathname).then((answer) => answer.text())")

    await link.hover()
    await page.mouse.down()
    await looked_again()
    await expect(link.locator(".value")).to_have_text("1")
    await page.get_by_role("heading", level=1).hover()
    await page.mouse.up()  # released elsewhere, so this was not a click
    await page.clock.run_for(100)
    await expect(link.locator(".value")).not_to_have_text("1")
    await link.hover()
    await page.mouse.down()
    await looked_again()
    await page.mouse.up()
    await expect(page).to_have_url(re.compile(r"#/sessions\?status=searching"))
