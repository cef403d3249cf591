"""The daily work of operators, in a browser, against the whole service."""

import asyncio
import datetime as dt
import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Route, expect

from tests.http.extensions.steps import answer_extension, ask_for_extension, wait_for_status
from tests.http.operators.steps import PASSWORD, a_role, an_account, an_operator, audits, unique
from tests.http.pairing.steps import wait_for_invitation
from tests.http.privacy.steps import finish
from tests.pages.browser import BrowserWindow, open_window
from tests.stack import EMAIL, World, refused
from tests.stack import PASSWORD as ROOT_PASSWORD
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

FAILURES, TIERS = "/internal/failed-pairings", "/internal/pricing/tiers"


async def a_failure(world: World, name: str) -> dict[str, Any]:
    """Create a failed pairing: a customer pays and cancels."""
    customer = await world.customer(name)
    payment = await world.paid(customer)
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    rows = (await (await world.operator()).get(FAILURES, limit=200))["items"]
    return next(row for row in rows if row["payment_request_id"] == payment["payment_request_id"])


async def ask_about_refunds(world: World) -> None:
    """Let the jobs process ask the gateway now about each refund that is under way."""
    await world.stack.sql("UPDATE refunds SET ask_at = requested_at WHERE ask_at IS NOT NULL")


async def nothing_waits(world: World) -> None:
    """Act on the failed pairings that other tests have left, so that this test's own come first.

    A refund that is under way has its result first.
    """
    root = await world.operator()
    await ask_about_refunds(world)
    found = await world.until(
        lambda: root.get(FAILURES, operator_action="none", limit=200),
        lambda seen: all(not row["refund"] or row["refund"]["settled_at"] for row in seen["items"]),
    )
    for row in found["items"]:
        await root.call("PATCH", f"{FAILURES}/{row['id']}", {"operator_action": "no_action"})


async def test_sign_in_leads_to_the_requested_page_and_sign_out_leaves_it(browser: Browser, world: World) -> None:
    root = await world.operator()
    account = await an_account(root, (await a_role(root, {"customers": "read"}))["id"])
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.open("#/customers?q=Dewi")
        await page.get_by_label("E-mail").fill(account["email"])
        await page.get_by_label("Password", exact=True).fill("not the password")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert").get_by_text("Incorrect e-mail or password.")).to_be_visible()
        await window.sign_in(account["email"], PASSWORD)
        await expect(page.get_by_label("Name or id")).to_have_value("Dewi")
        # The tokens are kept in this tab only, and never in the address.
        assert await page.evaluate("localStorage.length + document.cookie.length") == 0
        tokens = await page.evaluate("JSON.parse(sessionStorage.getItem('sesi.tokens'))")
        assert set(tokens) == {"access", "refresh"}
        assert tokens["access"] not in page.url
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("E-mail")).to_be_visible()
        assert await page.evaluate("sessionStorage.getItem('sesi.tokens')") is None
        revoked = world.client()
        revoked._base, revoked.access_token = world.stack.addresses.internal, tokens["access"]
        await world.until(lambda: revoked._once("GET", "/internal/auth/me", None), lambda seen: seen[0] == 401)


async def test_lockout_shows_a_countdown(browser: Browser, world: World) -> None:
    root = await world.operator()
    account = await an_account(root, (await a_role(root, {"customers": "read"}))["id"])
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.open()
        await page.get_by_label("E-mail").fill(account["email"])
        for _ in range(6):
            await page.get_by_label("Password", exact=True).fill("not the password")
            async with page.expect_response("**/internal/auth/login"):
                await page.get_by_role("button", name="Sign in").click()
        timer = page.get_by_role("timer")
        await expect(page.get_by_text("Too many attempts: this account is locked.")).to_be_visible()
        await expect(timer).to_have_text(re.compile(r"^1[45]:\d\d$"))
        first = await timer.inner_text()
        await expect(timer).not_to_have_text(first)


async def test_expired_tokens_are_renewed_silently(browser: Browser, world: World) -> None:
    somebody = await an_operator(world, {"customers": "read", "mitras": "read"})
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.signed_in(somebody.client)
        broken = "sessionStorage.setItem('sesi.tokens', JSON.stringify({...JSON.parse(sessionStorage.getItem('sesi.tokens')), access: 'x'}))"
        await page.evaluate(broken)
        async with page.expect_response("**/internal/auth/refresh") as refreshed:
            await window.open("#/mitras")
        assert (await refreshed.value).status == 200
        await expect(page.get_by_role("heading", name="Mitras")).to_be_visible()
        # Two tabs with the same tokens: the one that renews them informs the other, and both continue.
        other = await window.context.new_page()
        await other.goto(f"{window.home}/internal/static/icon.svg")
        tokens = await page.evaluate("sessionStorage.getItem('sesi.tokens')")
        await other.evaluate("tokens => sessionStorage.setItem('sesi.tokens', tokens)", tokens)
        await other.goto(f"{window.home}/internal/#/customers")
        await expect(other.get_by_role("heading", name="Customers")).to_be_visible()
        await other.evaluate(broken)
        await other.get_by_role("link", name="Mitras", exact=True).click()
        await expect(other.get_by_role("search")).to_be_visible()
        await expect(other.get_by_role("heading", name="Mitras")).to_be_visible()

        async def stored() -> set[str]:
            return {await tab.evaluate("sessionStorage.getItem('sesi.tokens')") for tab in (other, page)}

        # The page's policy forbids what `wait_for_function` does.
        await world.until(stored, lambda seen: len(seen) == 1 and '"access":"x"' not in "".join(seen))


async def test_new_tab_is_signed_in_by_the_others_and_sign_out_ends_them_all(browser: Browser, world: World) -> None:
    somebody = await an_operator(world, {"customers": "read", "mitras": "read"})
    async with open_window(browser, world.stack.addresses.internal) as window:
        await window.signed_in(somebody.client)
        await window.open("#/customers")
        await window.page.get_by_role("link", name="Mitras", exact=True).wait_for()
        async with window.context.expect_page() as opened:
            await window.page.get_by_role("link", name="Mitras", exact=True).click(modifiers=["ControlOrMeta"])
        tabs = [window.page, await opened.value]
        await expect(tabs[1].get_by_role("heading", name="Mitras")).to_be_visible()
        await tabs[0].close()
        tabs = [tabs[1], await window.context.new_page()]
        await tabs[1].goto(f"{window.home}/internal/#/customers")  # an address that a colleague has sent
        await expect(tabs[1].get_by_role("heading", name="Customers")).to_be_visible()
        assert await tabs[1].evaluate("localStorage.length + document.cookie.length") == 0
        await tabs[0].get_by_role("button", name="Sign out").click()
        for tab in tabs:
            await expect(tab.get_by_label("E-mail")).to_be_visible()
            assert await tab.evaluate("sessionStorage.getItem('sesi.tokens')") is None
        # The last tab ends the sign-in.
        await tabs[0].get_by_label("E-mail").fill(somebody.email)
        await tabs[0].get_by_label("Password", exact=True).fill(PASSWORD)
        await tabs[0].get_by_role("button", name="Sign in").click()
        await expect(tabs[0].get_by_role("navigation", name="Menu")).to_be_attached()
        await tabs[0].close()
        await tabs[1].reload()
        await expect(tabs[1].get_by_label("E-mail")).to_be_visible()


async def test_disabled_operator_is_signed_out_of_the_page(browser: Browser, world: World) -> None:
    somebody, root = await an_operator(world, {"customers": "read", "mitras": "read"}), await world.operator()
    async with open_window(browser, world.stack.addresses.internal) as window:
        await window.signed_in(somebody.client)
        await window.open("#/customers")
        await window.settled()
        await root.call("PATCH", f"/internal/operators/{somebody.id}", {"disabled": True})
        await window.page.get_by_role("link", name="Mitras", exact=True).click()
        await expect(window.page.get_by_label("E-mail")).to_be_visible()


async def test_dialog_saves_only_the_fields_that_were_changed(window: BrowserWindow, world: World) -> None:
    """Check that a dialog saves only its changed fields while a colleague changes the others."""
    root, page = await world.operator(), window.page
    role = await a_role(root, {"payments": "write", "customers": "read"})
    weak = await a_role(root, {"sessions": "read"})
    account = await an_account(root, role["id"])
    phone, other = (f"+62814{n}{role['id'][-6:].translate(str.maketrans('abcdef', '123456'))}" for n in (1, 2))
    mitra = await root.post("/internal/mitras", {"phone": phone, "display_name": "Ayu", "is_active": True})
    save = page.get_by_role("dialog").get_by_role("button", name="Save")

    await window.open("#/roles")
    await page.get_by_role("button", name=f"Edit {role['name']}").click()
    await page.get_by_role("dialog").get_by_label("Name").fill(f"{role['name']} team")
    await root.call("PATCH", f"/internal/roles/{role['id']}", {"permissions": {"customers": "read"}})
    await save.click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    (seen,) = [one for one in (await root.get("/internal/roles", limit=200))["items"] if one["id"] == role["id"]]
    assert (seen["name"], seen["permissions"]) == (f"{role['name']} team", {"customers": "read"})

    await window.open("#/operators")
    await page.get_by_role("row").filter(has_text=account["email"]).get_by_role("button", name="Edit").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("Sari W.")
    await root.call("PATCH", f"/internal/operators/{account['id']}", {"role_id": weak["id"]})
    await save.click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    (one,) = [one for one in (await root.get("/internal/operators", limit=200))["items"] if one["id"] == account["id"]]
    assert (one["display_name"], one["role_id"], one["email"]) == ("Sari W.", weak["id"], account["email"])

    await window.open(f"#/mitras/{mitra['id']}")
    await page.get_by_role("button", name="Edit…").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("Ayu Lestari")
    await root.call("PATCH", f"/internal/mitras/{mitra['id']}", {"phone": other})
    await save.click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    seen = await root.get(f"/internal/mitras/{mitra['id']}")
    assert (seen["display_name"], seen["phone"]) == ("Ayu Lestari", other)


async def test_role_select_offers_the_current_role_among_very_many(window: BrowserWindow, world: World) -> None:
    root, page = await world.operator(), window.page
    role = await a_role(root, {"customers": "read"})
    account = await an_account(root, role["id"])
    await world.stack.sql(
        """INSERT INTO roles (id, name, permissions, created_at)
           SELECT gen_random_uuid(), 'one of many ' || n, '{}', now() FROM generate_series(1, 201) n"""
    )
    try:
        await window.open("#/operators")
        await page.get_by_role("row").filter(has_text=account["email"]).get_by_role("button", name="Edit").click()
        await expect(page.get_by_role("dialog").get_by_label("Role")).to_have_value(role["id"])
    finally:
        await world.stack.sql("DELETE FROM roles WHERE name LIKE 'one of many %'")


async def test_failed_pairings_are_handled_newest_first_and_can_be_skipped(window: BrowserWindow, world: World) -> None:
    await nothing_waits(world)
    third, second, first = [await a_failure(world, name) for name in ("Cici", "Bayu", "Agus")]
    page = window.page
    await window.open()
    needs = page.get_by_role("heading", name="Paid without a chat, newest first").locator("..")
    await expect(needs.get_by_role("link")).to_have_text([re.compile(name) for name in ("Agus", "Bayu", "Cici")])
    await needs.get_by_role("link").first.click()
    await expect(page.locator(".why")).to_contain_text("The customer paid and cancelled before a mitra accepted.")
    await page.get_by_role("button", name="Refunded").click()
    dialog = page.get_by_role("dialog", name="Record that Rp 12.000 was refunded to Agus?")
    await dialog.get_by_role("button", name="Cancel").click()
    assert (await (await world.operator()).get(f"{FAILURES}/{first['id']}"))["operator_action"] is None
    await page.get_by_role("button", name="Refunded").click()
    await dialog.get_by_role("button", name="Refunded").click()
    await expect(page.get_by_text("Recorded: refunded.")).to_be_visible()
    row = await (await world.operator()).get(f"{FAILURES}/{first['id']}")
    assert (row["operator_action"], row["actioned_by"]["display_name"]) == ("refunded", "Root")
    (audit,) = await audits(world, first["id"])
    assert audit["action"] == "failed_pairing.actioned"
    # One that can't be solved now is passed over, and comes again after the last one.
    await page.get_by_role("link", name="Next: Bayu, Rp 12.000").click()
    for name, following in (("Bayu", "Cici"), ("Cici", "Bayu")):
        await expect(page.get_by_role("heading", name=f"{name}, Rp 12.000")).to_be_visible()
        await expect(page.get_by_role("link", name=f"Next: {following}, Rp 12.000")).to_be_visible()
        await page.keyboard.press("j")
    await expect(page.get_by_role("heading", name="Bayu, Rp 12.000")).to_be_visible()
    await (await world.operator()).call("PATCH", f"{FAILURES}/{third['id']}", {"operator_action": "no_action"})
    await expect(page.get_by_role("button", name="No action needed")).to_be_visible()
    # A colleague was faster: nothing is written twice, and the page says so.
    await (await world.operator()).call("PATCH", f"{FAILURES}/{second['id']}", {"operator_action": "credited"})
    await page.get_by_role("button", name="No action needed").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="No action needed").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("This failure has already been resolved.")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(page.locator("main").get_by_text("credited")).to_be_visible()
    await expect(page.get_by_text("That was the last one.")).to_be_visible()


async def test_refund_through_the_gateway_by_one_key_is_followed_to_its_end(
    window: BrowserWindow, world: World
) -> None:
    await nothing_waits(world)
    failure, other, page = await a_failure(world, "Agus"), await a_failure(world, "Bayu"), window.page
    await window.open(f"#/failed-pairings/{failure['id']}")
    await expect(page.get_by_text("It is not known whether the channel refunds.")).to_be_visible()
    await page.keyboard.press("g")
    dialog = page.get_by_role("dialog", name="Refund Rp 12.000 to Agus through the gateway?")
    await dialog.get_by_label("Reason").press_sequentially("no mitra, great pity")  # letters of keys
    await dialog.get_by_role("button", name="Cancel").click()
    assert (await (await world.operator()).get(f"{FAILURES}/{failure['id']}"))["refund"] is None
    await page.keyboard.press("g")
    await dialog.get_by_label("Reason").fill("no mitra came")
    await dialog.get_by_role("button", name="Refund", exact=True).click()
    await expect(page.get_by_text("The refund is under way:")).to_be_visible()
    await expect(page.get_by_role("button", name="Refunded")).to_have_count(0)
    await world.stack.sql("UPDATE refunds SET ask_at = requested_at WHERE failure_id = $1::uuid", failure["id"])
    await expect(page.get_by_text("paid back")).to_be_visible(timeout=30_000)
    await expect(page.locator(".timeline").get_by_text("The gateway paid the money back.")).to_be_visible()
    await expect(page.get_by_role("link", name="Next: Bayu, Rp 12.000")).to_be_visible()
    await page.keyboard.press("j")
    await expect(page.get_by_role("heading", name="Bayu, Rp 12.000")).to_be_visible()
    await page.get_by_label("Use the keys shown on the buttons").uncheck()
    await page.locator("h1").focus()
    await page.keyboard.press("n")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_label("Use the keys shown on the buttons").check()
    await page.locator("h1").focus()
    await page.keyboard.press("n")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Note").fill("called them")
    await dialog.get_by_role("button", name="No action needed").click()
    await expect(page.get_by_text("called them", exact=True)).to_be_visible()
    row = await (await world.operator()).get(f"{FAILURES}/{other['id']}")
    assert (row["operator_action"], row["note"]) == ("no_action", "called them")


async def test_refund_that_the_gateway_does_not_decide_is_marked_with_its_reference(
    window: BrowserWindow, world: World
) -> None:
    await nothing_waits(world)
    failure, page = await a_failure(world, "Dian"), window.page
    await (await world.operator()).post(f"{FAILURES}/{failure['id']}/refund", {})
    await world.stack.sql(
        "UPDATE refunds SET requested_at = requested_at - interval '3 hours', ask_at = now() + interval '1 day'"
        " WHERE failure_id = $1::uuid",
        failure["id"],
    )
    await window.open("#/failed-pairings")
    await expect(page.get_by_role("row", name="Dian").get_by_text("refund not decided")).to_be_visible()
    await page.get_by_role("row", name="Dian").get_by_role("link").first.click()
    await expect(page.get_by_text(f"Look for it there by its reference {failure['id']}.")).to_be_visible()
    await expect(page.locator("main").get_by_text(re.compile(r"\(3 h"))).to_be_visible()
    await world.stack.sql("UPDATE refunds SET ask_at = requested_at WHERE failure_id = $1::uuid", failure["id"])
    await expect(page.get_by_text("paid back")).to_be_visible(timeout=30_000)
    await expect(page.get_by_text("not decided")).to_have_count(0)


async def test_dialog_cannot_be_closed_while_its_request_is_pending(window: BrowserWindow, world: World) -> None:
    failure, page = await a_failure(world, "Cahya"), window.page
    go_on = asyncio.Event()

    async def slow(route: Route) -> None:
        if route.request.method == "PATCH":
            await go_on.wait()
        await route.continue_()

    await page.route(f"**{FAILURES}/*", slow)
    await window.open("#/customers")
    await window.open(f"#/failed-pairings/{failure['id']}")
    await page.get_by_role("button", name="Refunded").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Refunded").click()
    await expect(dialog.get_by_role("button", name="Cancel")).to_be_disabled()
    await page.keyboard.press("Escape")
    await page.keyboard.press("Escape")
    await page.go_back()
    await expect(page.get_by_role("heading", name="Customers")).to_be_attached()
    await expect(dialog).to_be_visible()
    go_on.set()
    await expect(page.get_by_text("Recorded: refunded.")).to_be_visible()
    assert (await (await world.operator()).get(f"{FAILURES}/{failure['id']}"))["operator_action"] == "refunded"


async def test_concurrent_price_edit_asks_the_operator_to_decide(window: BrowserWindow, world: World) -> None:
    root, page = await world.operator(), window.page
    made = await root.post(TIERS, {"mode": "chat", "minutes": 77, "price_idr": 70_000})
    other = (await an_operator(world, {"pricing": "write"})).client

    async def meanwhile(price: int) -> None:
        row = next(one for one in (await other.get(TIERS))["items"] if one["id"] == made["id"])
        await other.call("PATCH", f"{TIERS}/{made['id']}", {"updated_at": row["updated_at"], "price_idr": price})

    async def edit(price: str) -> Any:
        await page.get_by_role("button", name="Edit 77 min, chat").click()
        dialog = page.get_by_role("dialog", name="77 min, chat")
        await dialog.get_by_label("Price (Rp)").fill(price)
        return dialog

    async def price_now() -> int:
        return next(one["price_idr"] for one in (await root.get(TIERS))["items"] if one["id"] == made["id"])

    await window.open("#/pricing")
    dialog = await edit("71000")
    await meanwhile(72_000)
    await dialog.get_by_role("button", name="Save").click()
    both = page.get_by_role("dialog", name="Another operator has changed this")
    await expect(both.locator(".versions")).to_contain_text("Rp 72.000")
    await expect(both.locator(".versions")).to_contain_text("Rp 71.000")
    await both.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_text("The other version was kept.")).to_be_visible()
    assert await price_now() == 72_000
    dialog = await edit("73000")
    await meanwhile(74_000)
    await dialog.get_by_role("button", name="Save").click()
    await both.get_by_role("button", name="Overwrite with mine").click()
    await expect(page.get_by_role("listitem").filter(has_text="77 min")).to_contain_text("Rp 73.000")
    assert await price_now() == 73_000
    await page.get_by_role("link", name="History of 77 min, chat").click()
    await expect(page.get_by_role("row")).to_have_count(5)
    await expect(page.get_by_role("row").nth(1)).to_contain_text("Price: Rp 74.000 → Rp 73.000")
    await window.open("#/pricing")
    await page.get_by_role("button", name="Remove 77 min, chat from the list").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove from list").click()
    await expect(page.get_by_text(re.compile(r"Removed from the list \(\d+\)")).first).to_be_visible()
    await expect(page.get_by_role("button", name="Edit 77 min, chat")).to_have_count(0)


async def test_price_shows_its_difference_and_asks_again_before_a_large_one(
    window: BrowserWindow, world: World
) -> None:
    root, page = await world.operator(), window.page
    made = await root.post(TIERS, {"mode": "chat", "minutes": 78, "price_idr": 48_000})
    await window.open("#/pricing")
    await page.get_by_role("button", name="Edit 78 min, chat").click()
    dialog = page.get_by_role("dialog", name="78 min, chat")
    await dialog.get_by_label("Price (Rp)").fill("48")
    await expect(dialog.get_by_role("status")).to_have_text("Rp 48.000 → Rp 48 (-99.9%)")
    await dialog.get_by_role("button", name="Save").click()
    asked = page.get_by_role("dialog", name="Change by more than half?")
    await expect(asked).to_contain_text("Rp 48.000 → Rp 48 (-99.9%)")
    await asked.get_by_role("button", name="Cancel").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Nothing was saved. Check the value.")
    await dialog.get_by_label("Price (Rp)").fill("24000")  # half is not more than half
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("listitem").filter(has_text="78 min")).to_contain_text("Rp 24.000")
    rows = {row["id"]: row["price_idr"] for row in (await root.get(TIERS))["items"]}
    assert rows[made["id"]] == 24_000
    await page.get_by_role("button", name="Change the discount…").click()
    dialog = page.get_by_role("dialog", name="First-session discount")
    await dialog.get_by_label("Crossed-out price").fill("1")
    await dialog.get_by_role("button", name="Save").click()
    await asked.get_by_role("button", name="Cancel").click()
    await dialog.get_by_role("button", name="Cancel").click()


async def test_button_pressed_while_prices_reload_takes_effect_afterwards(window: BrowserWindow, world: World) -> None:
    root, page = await world.operator(), window.page
    made = await root.post(TIERS, {"mode": "chat", "minutes": 66, "price_idr": 60_000})
    held: list[Route] = []
    edit, dialog = page.get_by_role("button", name="Edit 66 min, chat"), page.get_by_role("dialog")

    async def hold_first(route: Route) -> None:
        if held or route.request.method != "GET":
            await route.continue_()
        else:
            held.append(route)

    async def count() -> int:
        return len(held)

    await window.open("#/pricing")
    await edit.click()
    await dialog.get_by_label("Price (Rp)").fill("61000")
    await page.route(f"**{TIERS}", hold_first)
    await dialog.get_by_role("button", name="Save").click()
    await world.until(count, lambda seen: seen == 1)
    await expect(dialog).to_have_count(0)
    await edit.click()  # this row is out of date, but the dialog shows the current one
    await held[0].continue_()
    await expect(dialog.get_by_label("Price (Rp)")).to_have_value("61000")
    await dialog.get_by_label("Price (Rp)").fill("62000")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("listitem").filter(has_text="66 min")).to_contain_text("Rp 62.000")
    await expect(edit).to_be_focused()
    await expect(page.get_by_text("Another operator has changed this")).to_have_count(0)
    row = next(one for one in (await root.get(TIERS))["items"] if one["id"] == made["id"])
    await root.call("DELETE", f"{TIERS}/{made['id']}", params={"updated_at": row["updated_at"]})


async def order_of_calls(root: Device) -> list[int]:
    """Return the minutes of the active prices of calls, in their order."""
    rows = (await root.get(TIERS, mode="call"))["items"]
    return [row["minutes"] for row in rows if row["is_active"]]


async def test_prices_are_reordered_by_keyboard_and_by_drag(window: BrowserWindow, world: World) -> None:
    root, page = await world.operator(), window.page

    order = functools.partial(order_of_calls, root)
    first, second, *rest = await order()
    await window.open("#/pricing")
    calls = page.locator("[data-mode=call]")

    def drag_handle(minutes: int) -> Locator:
        return calls.get_by_role("button", name=f"Move {minutes} min, call:")

    async def place(minutes: int) -> Any:
        """Return where a grip is. For a moment it is absent, while the saved order is drawn."""
        return await world.until(drag_handle(minutes).bounding_box, lambda box: box is not None)

    await drag_handle(first).focus()
    await page.keyboard.press("ArrowDown")
    await world.until(order, lambda seen: seen == [second, first, *rest])
    await expect(calls.get_by_role("listitem").first).to_contain_text(f"{second} min")
    await expect(drag_handle(first)).to_be_focused()
    await page.get_by_text("Order saved.").wait_for()
    start, end = await place(first), await place(second)
    await page.mouse.move(start["x"] + 8, start["y"] + 8)
    await page.mouse.down()
    await page.mouse.move(end["x"] + 8, end["y"] + 2, steps=8)
    await page.mouse.up()
    await world.until(order, lambda seen: seen == [first, second, *rest])
    await expect(calls.get_by_role("listitem").first).to_contain_text(f"{first} min")
    # Dropped outside the list: the saved order is shown, and the row no longer follows the mouse.
    start, end = await place(second), await place(first)
    await page.mouse.move(start["x"] + 8, start["y"] + 8)
    await page.mouse.down()
    await page.mouse.move(end["x"] + 8, end["y"] + 2, steps=8)
    await page.mouse.move(2, 2, steps=4)
    await page.mouse.up()
    await world.until(order, lambda seen: seen == [second, first, *rest])
    await expect(page.locator(".carried")).to_have_count(0)
    # Two quick moves: the second is not lost, and no colleague is blamed for it.
    await drag_handle(second).focus()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowDown")
    await world.until(order, lambda seen: seen == [first, second, *rest])
    await expect(page.get_by_text("Another operator has changed this")).to_have_count(0)


async def test_move_of_a_price_that_waits_for_another_is_shown(window: BrowserWindow, world: World) -> None:
    """The next move starts from what is shown, so an older order would undo the one that waits."""
    root, page = await world.operator(), window.page

    order = functools.partial(order_of_calls, root)
    before = await order()
    held: asyncio.Queue[Route] = asyncio.Queue()
    await page.route("**/pricing/tiers/order", held.put)
    await window.open("#/pricing")
    calls = page.locator("[data-mode=call]")
    await calls.get_by_role("button", name=f"Move {before[0]} min, call:").focus()
    await page.keyboard.press("ArrowDown")
    first_save = await asyncio.wait_for(held.get(), 20)
    await page.keyboard.press("ArrowUp")
    await first_save.continue_()
    second_save = await asyncio.wait_for(held.get(), 20)  # the list has been drawn again since
    await expect(calls.get_by_role("listitem").first).to_contain_text(f"{before[0]} min")
    assert await order() != before
    await second_save.continue_()
    await world.until(order, lambda seen: seen == before)


def group_of(window: BrowserWindow, setting: Locator) -> Locator:
    """Return the group of a setting, which is saved at once."""
    return window.page.locator("form").filter(has=setting)


async def test_fractional_setting_accepts_point_and_comma(window: BrowserWindow, world: World) -> None:
    path = "/internal/config/mitra_stale_after_seconds"
    operator = await world.operator()
    before = (await operator.get(path))["value"]
    await window.open("#/settings")
    setting = window.page.locator("[data-key=mitra_stale_after_seconds]")
    try:
        for written, value in (("60.5", 60.5), ("61,25", 61.25), ("62", 62)):
            await setting.get_by_role("textbox").fill(written)
            field = await setting.get_by_role("textbox").element_handle()
            assert field is not None
            await group_of(window, setting).get_by_role("button", name="Save").click()
            await world.until(lambda: operator.get(path), lambda row, value=value: row["value"] == value)
            await field.wait_for_element_state("hidden")  # the page shows the saved setting in a new field
    finally:
        await operator.call("PUT", path, {"value": before})


async def test_operator_writes_and_removes_the_maintenance_notice(window: BrowserWindow, world: World) -> None:
    page, operator = window.page, await world.operator()
    await window.open("#/settings")
    setting = page.locator("[data-key=maintenance]")
    group = group_of(window, setting)
    save = group.get_by_role("button", name="Save")
    await setting.get_by_label("English").fill("We are back soon.")
    await save.click()
    await expect(group.get_by_role("alert")).to_contain_text("message_id, message_en, until")
    await setting.get_by_label("Indonesian").fill("Kami segera kembali.")
    await setting.get_by_label("Until").fill("2030-01-31T22:00")
    await save.click()
    await expect(setting).to_contain_text("Last changed by Root")
    stored = (await operator.get("/internal/config/maintenance"))["value"]
    assert (stored["message_id"], stored["message_en"]) == ("Kami segera kembali.", "We are back soon.")
    local = await page.evaluate(
        "(at) => new Date(at).getTime() === new Date('2030-01-31T22:00').getTime()", stored["until"]
    )
    assert local is True
    await setting.get_by_label("Indonesian").fill("")
    await setting.get_by_label("English").fill("")
    await save.click()
    await world.until(lambda: operator.get("/internal/config/maintenance"), lambda row: row["value"] is None)
    await expect(setting.get_by_label("Until")).to_have_value("")


async def test_operator_sets_and_clears_the_oldest_usable_version(window: BrowserWindow, world: World) -> None:
    path, operator = "/internal/config/minimum_version_web", await world.operator()
    await window.open("#/settings")
    setting = window.page.locator("[data-key=minimum_version_web]")
    await expect(setting).to_contain_text("Default: none")
    for written, value in (("1.4.0", "1.4.0"), ("", None)):
        field = await setting.get_by_role("textbox").element_handle()
        assert field is not None
        await field.fill(written)
        await group_of(window, setting).get_by_role("button", name="Save").click()
        await world.until(lambda: operator.get(path), lambda row, value=value: row["value"] == value)
        await field.wait_for_element_state("hidden")  # the page shows the saved setting in a new field


async def test_setting_takes_effect_and_its_bounds_are_shown(window: BrowserWindow, world: World) -> None:
    page, customer = window.page, await world.customer()
    await world.config("payment_session_timeout_minutes", 20)
    await window.open("#/settings")
    setting = page.locator("[data-key=payment_session_timeout_minutes]")
    await expect(setting).to_contain_text("Lifetime of a payment request.")
    await expect(setting).to_contain_text("Default: 20 minutes")
    await setting.get_by_role("textbox").fill("1441")
    await group_of(window, setting).get_by_role("button", name="Save").click()
    await expect(setting.locator(".wrong")).to_contain_text("whole number from 1 to 1,440 minutes")
    await setting.get_by_role("textbox").fill("19")
    await expect(setting.get_by_role("status")).to_have_text("20 minutes → 19 minutes (-5%)")
    # A change by more than half is asked about.
    await setting.get_by_role("textbox").fill("7")
    await group_of(window, setting).get_by_role("button", name="Save").click()
    asked = page.get_by_role("dialog", name="Change by more than half?")
    await expect(asked).to_contain_text("20 minutes → 7 minutes (-65%)")
    await asked.get_by_role("button", name="Cancel").click()
    await expect(group_of(window, setting).get_by_role("alert")).to_contain_text("Nothing was saved. Check the value.")
    await expect(setting.get_by_role("textbox")).to_have_value("7")
    await group_of(window, setting).get_by_role("button", name="Save").click()
    await asked.get_by_role("button", name="Save the change").click()
    await expect(setting).to_contain_text("Last changed by Root")
    await expect(setting.get_by_text("changed", exact=True)).to_be_visible()

    async def lifetime() -> float:
        made = await world.request(customer)
        took = dt.datetime.fromisoformat(made["expires_at"]) - dt.datetime.fromisoformat(made["created_at"])
        return took.total_seconds() / 60

    await world.until(lifetime, lambda minutes: round(minutes) == 7)
    await world.config("payment_session_timeout_minutes", 20)


async def test_group_of_settings_is_found_saved_at_once_and_set_back_in_the_audit_log(
    window: BrowserWindow, world: World
) -> None:
    page, operator = window.page, await world.operator()
    path = "/internal/config/{}".format
    await world.config("failure_due_hours", 24)
    await window.open("#/settings")
    await page.get_by_label("Search settings").fill("resolve failed pairing")
    await expect(page.locator(".setting:visible")).to_have_count(1)
    await expect(page.get_by_role("heading", name="Retention")).to_be_hidden()
    await page.get_by_label("Search settings").fill("no such thing")
    await expect(page.get_by_text("No setting has these words.")).to_be_visible()
    await page.get_by_label("Search settings").fill("")
    group = page.get_by_role("region", name="Payment")
    hours, first = (group.locator(f"[data-key={key}]") for key in ("failure_due_hours", "payment_method_qris_first"))
    await hours.get_by_role("textbox").fill("23")
    await first.get_by_role("checkbox").uncheck()
    await expect(hours.get_by_role("status")).to_have_text("24 hours → 23 hours (-4.2%)")
    await expect(first.get_by_role("status")).to_have_text("yes → no")
    other = await operator.get(path("failure_due_hours"))
    await operator.call("PUT", path("failure_due_hours"), {"value": 24})  # another operator is faster
    await group.get_by_role("button", name="Save").click()
    await expect(group.get_by_role("alert")).to_contain_text("Another operator has changed this.")
    assert (await operator.get(path("failure_due_hours")))["updated_at"] != other["updated_at"]
    await window.open("#/settings?q=failure_due_hours")
    await expect(page.locator(".setting:visible")).to_have_count(1)
    await hours.get_by_role("textbox").fill("23")
    await group.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    assert (await operator.get(path("failure_due_hours")))["value"] == 23
    await window.open("#/audit-log?object_id=failure_due_hours")
    newest = page.get_by_role("row").nth(1)
    await expect(newest).to_contain_text("24 hours → 23 hours (-4.2%)")
    await expect(newest.get_by_role("link", name="Time to resolve a failed pairing")).to_be_visible()
    await newest.get_by_role("button", name="Set Time to resolve a failed pairing back").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("23 hours → 24 hours (+4.3%)")
    await dialog.get_by_role("button", name="Save").click()
    await world.until(lambda: operator.get(path("failure_due_hours")), lambda row: row["value"] == 24)
    await expect(newest).to_contain_text("23 hours → 24 hours")
    await world.config("payment_method_qris_first", True)


async def test_operator_schedules_a_price_sees_the_difference_and_cancels_it(
    window: BrowserWindow, world: World
) -> None:
    page, operator = window.page, await world.operator()
    tiers = (await operator.get("/internal/pricing/tiers", mode="call"))["items"]
    tier = next(one for one in tiers if one["is_active"])
    await window.open("#/pricing")
    row = page.locator(f"[data-id='{tier['id']}']")
    await row.get_by_role("button", name="Schedule a price of").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("From")).to_have_value(re.compile(r"T00:00$"))  # tomorrow
    await dialog.get_by_label("From").fill("2030-11-29T00:00")
    await dialog.get_by_label("Price (Rp)").fill("48")
    await expect(dialog.get_by_role("status")).to_contain_text("→ Rp 48")
    await dialog.get_by_role("button", name="Schedule").click()
    asked = page.get_by_role("dialog", name="Change by more than half?")
    await asked.get_by_role("button", name="Cancel").click()
    prices = [f"Rp {tier['price_idr'] + more:,}".replace(",", ".") for more in (0, 1_000, 2_000)]
    await dialog.get_by_label("Price (Rp)").fill(prices[1])  # as the page writes it
    await expect(dialog.get_by_role("status")).to_contain_text(f"{prices[0]} → {prices[1]}")
    await dialog.get_by_role("button", name="Schedule").click()
    await expect(row.locator(".scheduled")).to_contain_text("29")
    await expect(row.locator(".scheduled")).to_contain_text("→ Rp")
    # A later price is compared with the one that holds before it.
    await row.get_by_role("button", name="Schedule a price of").click()
    await dialog.get_by_label("Price (Rp)").fill(prices[2])
    await expect(dialog.get_by_role("status")).to_contain_text(f"{prices[0]} → {prices[2]}")
    await dialog.get_by_label("From").fill("2030-12-01T00:00")
    await expect(dialog.get_by_role("status")).to_contain_text(f"{prices[1]} → {prices[2]}")
    await dialog.get_by_role("button", name="Cancel").click()
    (planned,) = next(
        one for one in (await operator.get("/internal/pricing/tiers"))["items"] if one["id"] == tier["id"]
    )["scheduled"]
    assert planned["starts_at"].startswith("2030-11-28T17:00:00")  # the browser is in Jakarta
    await row.get_by_role("button", name="Cancel the price of").click()
    await expect(row.locator(".scheduled")).to_have_count(0)
    await window.open(f"#/pricing/tiers/{tier['id']}")
    await expect(page.get_by_role("row").nth(1)).to_contain_text("schedule cancelled")
    await expect(page.get_by_role("row").nth(2)).to_contain_text("asked for on")


async def test_scheduled_price_starts_on_the_page_and_is_set_back_from_the_audit_log(
    window: BrowserWindow, world: World
) -> None:
    page, root = window.page, await world.operator()
    made = await root.post(TIERS, {"mode": "chat", "minutes": 79, "price_idr": 48_000})
    soon = {"price_idr": 50_000, "starts_at": (root.clock.now() + dt.timedelta(seconds=4)).isoformat()}
    await root.post(f"{TIERS}/{made['id']}/schedule", {**soon, "updated_at": made["updated_at"]})

    async def price_now() -> int:
        return next(one["price_idr"] for one in (await root.get(TIERS))["items"] if one["id"] == made["id"])

    await page.clock.install()
    await window.open("#/pricing")
    tier = page.locator(f"[data-id='{made['id']}']")
    await expect(tier.locator(".scheduled")).to_contain_text("Rp 48.000 → Rp 50.000 (+4.2%)")
    await world.until(price_now, lambda price: price == 50_000)
    await page.clock.run_for(11_000)
    await expect(tier.locator(".price")).to_have_text("Rp 50.000")
    await expect(tier.locator(".scheduled")).to_have_count(0)
    await window.open("#/audit-log?object_type=pricing_tier")
    asked = page.get_by_role("row").nth(1)
    await expect(asked).to_contain_text("scheduled a price")
    await expect(asked).to_contain_text("Price: Rp 50.000")
    await asked.get_by_role("link", name="79 min, chat").click()
    await expect(page.get_by_role("heading", name="History of 79 min, chat")).to_be_visible()
    started = page.get_by_role("row").nth(1)
    await expect(started).to_contain_text("started as scheduled")
    await started.get_by_role("button", name="Set back…").click()
    dialog = page.get_by_role("dialog", name="Set 79 min, chat back")
    await expect(dialog).to_contain_text("Price: Rp 50.000 → Rp 48.000 (-4%)")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("row").nth(1)).to_contain_text("Price: Rp 50.000 → Rp 48.000")
    assert await price_now() == 48_000
    await expect(page.get_by_role("button", name="Set back…")).to_have_count(1)  # the start is set back already
    token = next(one for one in (await root.get(TIERS))["items"] if one["id"] == made["id"])["updated_at"]
    await root.call("DELETE", f"{TIERS}/{made['id']}", params={"updated_at": token})


async def test_change_of_the_discount_is_set_back_in_its_history(window: BrowserWindow, world: World) -> None:
    page, root, path = window.page, await world.operator(), "/internal/pricing/promotions/first-session"
    before = await root.get(path)
    change = {"price_idr": before["price_idr"] + 1_000, "modes": [], "updated_at": before["updated_at"]}
    await root.call("PATCH", path, change)
    await window.open("#/pricing/promotion")
    await page.get_by_role("row").nth(1).get_by_role("button", name="Set back…").click()
    dialog = page.get_by_role("dialog", name="Set First-session discount back")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Saved.")).to_be_visible()
    after = await root.get(path)
    assert {**after, "updated_at": None} == {**before, "updated_at": None}


async def test_unserved_searches_are_shown_by_the_hour_in_the_operators_time_zone(
    window: BrowserWindow, world: World
) -> None:
    await a_failure(world, "Dewi")
    found = (await (await world.operator()).get("/internal/unserved"))["items"]
    searches, unserved = sum(one["searches"] for one in found), sum(one["unserved"] for one in found)
    await window.open("#/unserved")
    await expect(window.page.get_by_text(f"In all: {unserved} of {searches} searches were unserved.")).to_be_visible()
    one = found[0]
    hour = (one["weekday"] - 1) * 24 + one["hour"] + 7  # the browser is in Jakarta
    row = window.page.get_by_role("row").filter(has=window.page.get_by_role("rowheader", name=f"{hour % 24:02}:00"))
    cell = row.get_by_role("cell").nth(hour // 24 % 7)
    await expect(cell).to_contain_text(f"{one['unserved']} of {one['searches']} searches")


async def test_promises_of_a_day_are_compared_with_the_waits(window: BrowserWindow, world: World) -> None:
    mitra = await world.mitra("Dian")
    await world.stack.sql("DELETE FROM wait_promises")  # those of earlier tests
    async with world.estimate(p50=40, p90=125):
        await world.session(await world.customer("Rina"), mitra)
        left = await world.request(await world.customer("Tari"))
    found = (await (await world.operator()).get("/internal/promises"))["items"][0]
    await window.open("#/promises")
    row = window.page.get_by_role("row").nth(1)
    await expect(row).to_be_visible()
    heads = await window.page.get_by_role("columnheader").all_inner_texts()
    assert heads[:5] == ["Day (UTC)", "Promised", "Half wait at most", "Nine of ten wait at most", "Later"]
    assert heads[5:] == ["No mitra", "Cancelled", "Waiting", "Withheld"]
    cells = await row.get_by_role("cell").all_inner_texts()
    assert (found["made"], found["kept"], found["waiting"], found["not_searched"]) == (2, 1, 0, 1)
    assert (cells[1], cells[4], cells[5]) == ("2", "0", "0")
    assert cells[2].splitlines()[-1].startswith("40 s → ")
    assert cells[3].startswith("1 (100%)")
    assert cells[3].splitlines()[-1].startswith("2 min 5 s → ")
    assert cells[7].splitlines() == ["0", "1 not searched"]
    assert cells[8] == "0"
    await window.open(f"#/payments/{left['payment_request_id']}")
    await expect(window.page.get_by_text("half wait at most 40 s, nine of ten 2 min 5 s")).to_be_visible()


async def test_payment_page_explains_why_there_was_no_chat(window: BrowserWindow, world: World) -> None:
    failure = await a_failure(world, "Wulan Purnama")
    page = window.page
    await window.open()
    await page.get_by_role("link", name="Payments", exact=True).click()
    await page.get_by_label("Name or id").fill("Wulan")
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("row").filter(has_text="Wulan Purnama").get_by_role("link").first.click()
    await expect(page).to_have_url(f"{window.home}/internal/#/payments/{failure['payment_request_id']}")
    await expect(page.locator(".why")).to_contain_text("The customer paid and cancelled before a mitra accepted.")
    story = page.locator(".timeline li .what")
    assert (await story.all_inner_texts())[:3] == ["Payment requested", "The gateway called", "Paid"]
    await page.get_by_role("link", name="View the call").click()
    await expect(page.get_by_role("heading", name="Webhook call")).to_be_visible()
    await page.get_by_role("button", name="Replay…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Replay").click()
    await expect(page.get_by_text("Replayed: duplicate.")).to_be_visible()
    await expect(page.locator("main")).to_contain_text("Replay of")


async def given_up(world: World, customer: Device) -> dict[str, Any]:
    """Abandon a payment request, and pay it."""
    payment = await world.request(customer)
    await customer.post(f"/api/client/payment/requests/{payment['payment_request_id']}/abandon")
    await world.webhook(payment, paid_at=payment["created_at"])
    return payment


async def paid_twice(world: World, customer: Device) -> dict[str, Any]:
    """Pay two requests, of which one had expired; return that one."""
    payment = await world.request(customer)
    expire = "UPDATE payment_requests SET status = 'expired' WHERE id = $1"
    await world.stack.sql(expire, payment["payment_request_id"])
    await world.paid(customer)
    await world.webhook(payment)
    return payment


async def late(world: World, customer: Device) -> dict[str, Any]:
    """Pay a request after the time to pay."""
    payment = await world.request(customer)
    await world.webhook(payment, status="EXPIRED")
    paid_at = dt.datetime.fromisoformat(payment["expires_at"]) + dt.timedelta(minutes=2)
    await world.webhook(payment, paid_at=paid_at.isoformat())
    return payment


async def discount_used(world: World, customer: Device) -> dict[str, Any]:
    """Pay a request with a discount that the customer has used up since."""
    mitra = await world.mitra()
    payment = await world.request(customer)
    had = {"customer_id": customer.user["id"], "mitra_id": mitra.user["id"]}
    await (await world.operator()).post("/internal/_test/seed-history-session", had)
    discounted = "UPDATE payment_requests SET is_first_session_discount = true WHERE id = $1::text::uuid"
    await world.stack.sql(discounted, payment["payment_request_id"])
    await world.webhook(payment)
    return payment


async def rejected_extension(world: World, customer: Device) -> dict[str, Any]:
    """Pay an extension that the mitra rejects."""
    mitra = await world.mitra()
    payment, extension = await ask_for_extension(world, customer, await world.session(customer, mitra))
    await answer_extension(mitra, extension, accept=False)
    return payment


async def silence(world: World, customer: Device) -> dict[str, Any]:
    """Pay an extension that the mitra does not answer, which counts as a rejection."""
    session_id = await world.session(customer, await world.mitra())
    async with world.setting(extension_timeout_seconds=1, extension_default_action_on_timeout="reject"):
        payment, _ = await ask_for_extension(world, customer, session_id)
        await wait_for_status(world, payment, "rejected")
    return payment


async def ended_by_operator(world: World, customer: Device) -> dict[str, Any]:
    """Pay a request whose search an operator ends."""
    payment = await world.paid(customer)
    root = await world.operator()
    await root.post(f"/internal/sessions/{payment['session_id']}/end", {"reason": "the mitra called in sick"})
    return payment


SAID = [
    (late, "payment came too late", "The payment arrived after the time to pay had ended."),
    (given_up, "paid after giving up", "The payment arrived after the request had been abandoned."),
    (paid_twice, r"paid twice|paid during another session", r"paid twice: another request|had another session"),
    (discount_used, "discount already used", "when the first-session discount had already been used"),
    (rejected_extension, "extension rejected", "The customer paid for an extension, and the mitra rejected it."),
    (silence, "extension not answered", "paid for an extension, and the mitra did not answer in time."),
    (ended_by_operator, "ended by an operator", "an operator ended the search before a mitra accepted"),
]
GUESSES = ("could no longer become a chat", "rejected it or did not answer", "customer cancelled")


@pytest.mark.parametrize(("happened", "label", "why"), SAID)
async def test_cause_says_the_one_thing_that_happened(
    window: BrowserWindow, world: World, happened: Callable[..., Awaitable[dict[str, Any]]], label: str, why: str
) -> None:
    name, page = unique("Bunga"), window.page
    payment = await happened(world, await world.customer(name))
    await window.open(f"#/failed-pairings?q={name}")
    row = page.get_by_role("row").filter(has_text=name)
    await expect(row.locator(".chip").filter(has_text=re.compile(f"^({label})$"))).to_be_visible()
    await row.get_by_role("link").first.click()
    await expect(page.locator(".facts .chip").filter(has_text=re.compile(f"^({label})$"))).to_be_visible()
    await expect(page.locator(".why")).to_contain_text(re.compile(why))
    await expect(page.locator(".timeline")).to_contain_text(re.compile(rf"no chat \(({label})\)"))
    for guess in GUESSES:
        await expect(page.locator("main")).not_to_contain_text(guess)
    await window.open(f"#/payments/{payment['payment_request_id']}")
    await expect(page.locator(".facts .chip").filter(has_text=re.compile(f"^({label})$"))).to_be_visible()
    if happened is ended_by_operator:
        await window.open(f"#/sessions/{payment['session_id']}")
        await expect(page.locator(".facts").first).to_be_visible()
        await expect(page.locator(".facts").first).not_to_contain_text("cancelled by the customer")


async def test_customer_who_paid_twice_is_followed_from_either_payment(window: BrowserWindow, world: World) -> None:
    page, customer = window.page, await world.customer(unique("Wawan"))
    one = await paid_twice(world, customer)
    await window.open(f"#/payments/{one['payment_request_id']}")
    await page.locator(".facts").get_by_role("link", name="the other payment").click()
    await expect(page.locator(".facts").get_by_text("paid", exact=True)).to_be_visible()
    await expect(page).not_to_have_url(re.compile(one["payment_request_id"]))
    await customer.post("/api/client/chat/cancel", {"payment_request_id": page.url.rpartition("/")[2]})


async def test_long_search_shows_its_rounds_closed_and_in_the_operators_language(
    browser: Browser, world: World
) -> None:
    for name in ("Ayu", "Bunga", "Citra"):
        await world.mitra(name)
    customer = await world.customer("Nabila")
    async with world.setting(pairing_blast_timeout_seconds=2):
        payment = await world.paid(customer)
        root = await world.operator()
        path = f"/internal/payment-requests/{payment['payment_request_id']}/timeline"
        await world.until(
            lambda: root.get(path), lambda seen: sum(e["kind"] == "round_ended" for e in seen["entries"]) >= 2
        )
        await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    async with open_window(browser, world.stack.addresses.internal, locale="id-ID") as window:
        page = window.page
        await window.signed_in(root)
        await window.open(f"#/payments/{payment['payment_request_id']}")
        story = page.locator(".timeline").first
        await expect(story.get_by_text("Pelanggan meminta sesi 12 menit, obrolan, Rp 12.000.")).to_be_visible()
        await expect(story.get_by_text(re.compile(r"^Putaran 1: \d+ daring"))).to_be_visible()
        rounds = story.locator("details")
        assert await rounds.count() >= 2
        await expect(rounds.first.get_by_text("Ayu diminta (putaran 1).")).to_be_hidden()
        await rounds.first.locator("summary").click()
        await expect(rounds.first.get_by_text("Ayu diminta (putaran 1).")).to_be_visible()
        await window.open("#/settings")
        await expect(page.get_by_role("heading", name="Lama putaran pencarian")).to_be_visible()
        await expect(page.get_by_text("bila tidak semua ditanya sekaligus")).to_be_visible()


async def test_mitra_who_never_tried_is_not_called_too_late(window: BrowserWindow, world: World) -> None:
    winner, slow, tried = [await world.mitra(unique(name)) for name in ("Ayu", "Bima", "Citra")]
    payment, page = await world.paid(await world.customer("Nabila")), window.page
    for mitra in (winner, slow, tried):
        await wait_for_invitation(world, mitra, payment["session_id"])
    accept = f"/api/mitra/chat-requests/{payment['session_id']}/accept"
    await winner.post(accept)
    await refused(tried.post(accept), 409, "REQUEST_TAKEN")
    await window.open(f"#/payments/{payment['payment_request_id']}")
    story = page.locator(".timeline").first
    await story.locator("summary").click()
    names = [one.user["display_name"] for one in (slow, tried)]
    await expect(story.get_by_text(f"{names[0]} had the request closed before they answered")).to_be_visible()
    await expect(story.get_by_text(f"{names[1]} was too late: another mitra had accepted")).to_be_visible()
    await expect(story.get_by_text("too late")).to_have_count(1)
    await window.open(f"#/activity/log?mitra_id={slow.user['id']}")
    await expect(page.get_by_role("row").nth(1)).to_contain_text("another accepted")
    await expect(page.get_by_role("row").nth(1)).not_to_contain_text("ms")


async def test_operator_confirms_a_payment_by_hand(window: BrowserWindow, world: World) -> None:
    customer = await world.customer("Ratna")
    payment = await world.request(customer)
    page = window.page
    await window.open(f"#/payments/{payment['payment_request_id']}")
    await page.get_by_role("button", name="Confirm by hand…").click()
    await (
        page.get_by_role("dialog", name="Confirm Rp 12.000 by hand?")
        .get_by_role("button", name="Confirm the payment")
        .click()
    )
    await expect(page.get_by_text("Payment confirmed.")).to_be_visible()
    await expect(page.get_by_text("Confirmed by hand", exact=True)).to_be_visible()
    await expect(page.get_by_role("button", name="Confirm by hand…")).to_have_count(0)


async def test_mitras_page_shows_when_a_phone_answered_a_presence_check(window: BrowserWindow, world: World) -> None:
    name, head = unique("Ratna"), "Answered a presence check"
    ayu = await world.mitra(name)
    await window.open(f"#/mitras?q={name}")
    await window.settled()
    await expect(window.page.get_by_role("columnheader")).to_have_text(["Name", "Phone", "State", "Last seen"])
    await world.stack.sql(
        "UPDATE mitra_online_status SET reachable_at = now() - interval '2 hours' WHERE mitra_id = $1::uuid",
        ayu.user["id"],
    )
    await window.page.reload()
    await expect(window.page.get_by_role("columnheader", name=head)).to_be_visible()
    await expect(window.page.get_by_role("row").nth(1)).to_contain_text("2 hours ago")
    await window.open(f"#/mitras/{ayu.user['id']}")
    await expect(window.page.get_by_text(head)).to_be_visible()
    await expect(window.page.get_by_text("2 hours ago")).to_be_visible()


async def test_operator_adds_takes_offline_and_deactivates_a_mitra(window: BrowserWindow, world: World) -> None:
    page = window.page
    ayu = await world.mitra("Kartika Sari")
    await window.open(f"#/mitras/{ayu.user['id']}")
    await expect(page.get_by_role("heading", name="Kartika Sari")).to_be_visible()
    await expect(page.get_by_text("online, available")).to_be_visible()
    await page.get_by_role("button", name="Take offline…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Take offline").click()
    await expect(page.get_by_text("Kartika Sari is offline.")).to_be_visible()
    await expect(page.locator(".chip").get_by_text("offline")).to_be_visible()
    await page.get_by_role("button", name="Deactivate…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Deactivate").click()
    await expect(page.get_by_text("inactive")).to_be_visible()
    await window.open("#/mitras")
    await page.get_by_role("button", name="Add a mitra…").click()
    dialog = page.get_by_role("dialog", name="Add a mitra")
    await dialog.get_by_label("Phone").fill("twelve")
    await dialog.get_by_label("Name").fill("Laras")
    await dialog.get_by_role("button", name="Add").click()
    await expect(dialog.get_by_label("Phone")).to_have_attribute("aria-invalid", "true")
    await expect(dialog.get_by_label("Phone")).to_be_focused()
    await dialog.get_by_label("Phone").fill("+6281199887766")
    await dialog.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("heading", name="Laras")).to_be_visible()


async def test_operator_manages_roles_operators_and_own_password(
    browser: Browser, window: BrowserWindow, world: World
) -> None:
    page = window.page
    await window.open("#/roles")
    await page.get_by_role("button", name="Add a role…").click()
    dialog = page.get_by_role("dialog", name="Add a role")
    await dialog.get_by_label("Name").fill("night watch")
    await dialog.get_by_label("failed pairings").select_option("write")
    await dialog.get_by_label("overview and activity").select_option("read")
    await dialog.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("row").filter(has_text="night watch")).to_contain_text(
        "failed pairings: read and write"
    )
    await page.get_by_role("link", name="Operators", exact=True).click()
    await page.get_by_role("button", name="Add an operator…").click()
    dialog = page.get_by_role("dialog", name="Add an operator")
    await dialog.get_by_label("Name").fill("Nita")
    await dialog.get_by_label("E-mail").fill("nita@example.test")
    await dialog.get_by_label("Role").select_option(label="night watch")
    await dialog.get_by_label("Password").fill("password1234")
    await dialog.get_by_role("button", name="Add").click()
    await expect(dialog.locator(".wrong")).to_be_visible()  # a common password
    await dialog.get_by_label("Password").fill(PASSWORD)
    await dialog.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("row").filter(has_text="nita@example.test")).to_contain_text("can sign in")
    async with open_window(browser, world.stack.addresses.internal) as hers:
        await hers.open("#/account")
        await hers.sign_in("nita@example.test", PASSWORD)
        await hers.page.get_by_label("Current password").fill("not this one")
        await hers.page.get_by_role("textbox", name="New password").fill("an even longer password 8")
        await hers.page.get_by_role("button", name="Change the password").click()
        await expect(hers.page.get_by_role("alert")).to_contain_text("Incorrect e-mail or password.")
        await hers.page.get_by_label("Current password").fill(PASSWORD)
        await hers.page.get_by_role("button", name="Change the password").click()
        await expect(hers.page.get_by_text("Password changed.")).to_be_visible()
    await page.get_by_role("row").filter(has_text="nita@example.test").get_by_role("button", name="Disable").click()
    await page.get_by_role("dialog").get_by_role("button", name="Disable").click()
    await expect(page.get_by_role("row").filter(has_text="nita@example.test")).to_contain_text("disabled")
    root = world.client()
    await root.sign_in_as_operator(EMAIL, ROOT_PASSWORD)


async def test_amount_of_a_webhook_call_is_in_rupiah_and_leads_to_its_payment(
    window: BrowserWindow, world: World
) -> None:
    page, payment = window.page, await world.request(await world.customer("Yanti"))
    await world.webhook(payment)
    await window.open(f"#/webhooks?q={payment['payment_request_id']}")
    row = page.get_by_role("row").filter(has_text=payment["payment_request_id"])
    await expect(row).to_contain_text("Rp 12.000")
    await expect(page.get_by_text("Times are in the zone Asia/Jakarta.")).to_be_visible()
    await row.get_by_role("link", name=payment["payment_request_id"]).click()
    await expect(page.get_by_role("heading", name="Yanti, Rp 12.000")).to_be_visible()


async def test_payment_without_a_chat_shows_what_became_of_its_money(window: BrowserWindow, world: World) -> None:
    page, failure = window.page, await a_failure(world, "Zaki")
    await (await world.operator()).call("PATCH", f"{FAILURES}/{failure['id']}", {"operator_action": "credited"})
    await window.open("#/payments?q=Zaki")
    await expect(page.get_by_role("row").filter(has_text="Zaki")).to_contain_text("credited")
    await window.open(f"#/payments/{failure['payment_request_id']}")
    await expect(page.locator(".facts").get_by_text("credited")).to_be_visible()
    await window.open(f"#/failed-pairings/{failure['id']}")
    await expect(page.locator(".facts").get_by_text("credited")).to_be_visible()
    await expect(page.get_by_text("Refund possible")).to_have_count(0)


async def test_mitras_online_add_up_on_the_overview(window: BrowserWindow, world: World) -> None:
    mitra = await world.mitra()
    await world.session(await world.customer(), mitra)
    await world.mitra()
    await world.mitra(online=False)
    await window.open()
    tile = window.page.get_by_role("link", name="mitras online")
    numbers = re.findall(r"\d+", await tile.inner_text())
    online, *parts = [int(one) for one in numbers]
    assert (online, online >= 2) == (sum(parts), True)


async def test_ledger_audit_page_shows_no_violations(window: BrowserWindow) -> None:
    await window.open("#/ledger")
    await expect(window.page.get_by_role("status").get_by_text("0 violations")).to_be_visible()


async def test_ledger_audit_page_lists_accepted_violations_apart(window: BrowserWindow, world: World) -> None:
    operator = await world.operator()
    session_id = (await world.paid(await world.customer("Zaki")))["session_id"]
    write = "UPDATE chat_sessions SET last_seq = $2 WHERE id = $1::text::uuid"
    await world.stack.sql(write, session_id, 3)
    try:
        (violation,) = (await operator.get("/internal/ledger/audit"))["violations"]
        accept = ("audit", "accept", violation["rule"], "--all", "--reason", "by hand", "--operator", EMAIL)
        world.stack.command(*accept)
        await window.open("#/ledger")
        await expect(window.page.get_by_role("status").get_by_text("0 violations")).to_be_visible()
        row = (
            window.page.get_by_role("table", name="Accepted violations").get_by_role("row").filter(has_text=session_id)
        )
        await expect(row).to_contain_text("by hand")
        await expect(row).to_contain_text(EMAIL)
    finally:
        await world.stack.sql(write, session_id, 0)
        await world.stack.sql("DELETE FROM accepted_violations")


async def test_session_page_shows_what_happened_to_its_events_on_each_phone(
    window: BrowserWindow, world: World
) -> None:
    ayu, budi = await world.mitra("Ayu"), await world.customer("Budi")
    desk, phone = await ayu.open("pairing"), await budi.open("chat")
    try:
        session_id = await world.session(budi, ayu)
        await phone.wait("session_started")
        noted = (
            "SELECT 1 FROM delivery_trail WHERE session_id = $1::uuid AND event = 'session_started' AND stage = 'sent'"
        )
        await world.until(lambda: world.stack.sql(noted, session_id), bool)
    finally:
        await desk.close()
        await phone.close()
    await window.open(f"#/sessions/{session_id}")
    page = window.page
    await expect(page.get_by_text(re.compile(r"What the phones received \(\d+\)"))).to_be_visible()
    event = page.locator(".timeline.small li").filter(has_text="session_started").filter(has_text="Budi")
    await expect(event).to_contain_text(re.compile(r"device: (sent|acknowledged) \d\d:\d\d:\d\d"))
    await page.get_by_text("What the phones received").click()
    await expect(event).to_be_hidden()


async def test_session_page_shows_the_rest_while_its_receipt_is_late(window: BrowserWindow, world: World) -> None:
    ayu, budi = await world.mitra("Ayu"), await world.customer("Budi")
    session_id = await world.session(budi, ayu)
    async with world.setting(early_end_customer_enabled=True):
        await finish(budi, ayu, session_id)
    page = window.page

    async def late(route: Route) -> None:
        await route.fulfill(status=503, json={"error": {"code": "UNAVAILABLE", "message": "Not now."}})

    await page.route(f"**/{session_id}/receipt", late)
    await window.open(f"#/sessions/{session_id}")
    await expect(page.get_by_text("The receipt can't be read at the moment.")).to_be_visible()
    await expect(page.get_by_text("Budi · Ayu")).to_be_visible()


async def test_timeline_of_a_session_with_a_receipt_is_beside_its_facts(window: BrowserWindow, world: World) -> None:
    ayu, budi = await world.mitra("Ayu"), await world.customer("Budi")
    session_id = await world.session(budi, ayu)
    async with world.setting(early_end_customer_enabled=True):
        await finish(budi, ayu, session_id)
    await window.open(f"#/sessions/{session_id}")
    cards = [window.page.locator("section.card", has_text=text) for text in ("Budi · Ayu", "Receipt", "What happened")]
    facts, receipt, timeline = [await one.bounding_box() for one in cards]
    assert facts is not None
    assert receipt is not None
    assert timeline is not None
    assert receipt["x"] == facts["x"]
    assert (timeline["x"] > facts["x"] + facts["width"], timeline["y"]) == (True, facts["y"])
