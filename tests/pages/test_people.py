"""A person's case in a browser: the search of every page, the page of a customer or mitra, and the acts on them."""

import json
import re
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.http.operators.second_factor import an_enrolled_operator
from tests.http.operators.steps import an_operator, unique
from tests.http.privacy.steps import phone_customer
from tests.pages.browser import PHONE, BrowserWindow, open_window
from tests.pages.test_pages import check_page_fits_window, no_violations, no_violations_in_both_themes
from tests.pages.test_work import FAILURES, a_failure
from tests.stack import World, new_id

pytestmark = pytest.mark.anyio

SEARCH = "Find anything"


# -- the search


async def test_search_opens_by_its_key_and_is_used_without_a_mouse(window: BrowserWindow, world: World) -> None:
    page, name = window.page, unique("Melati")
    await world.mitra(name, online=False)
    customer = await world.customer(name)
    pending = await world.request(customer)
    await window.open("#/mitras")
    await window.settled()
    await page.evaluate("document.seen = true")  # is lost if the page is loaded again
    await page.get_by_role("link", name="All mitras").or_(page.get_by_role("link", name="Payments")).first.focus()
    await page.keyboard.press("/")
    dialog = page.get_by_role("dialog", name=SEARCH)
    await expect(dialog.get_by_label("Search for")).to_be_focused()
    await page.keyboard.type(f"{name}/")  # the key is a letter here
    await page.keyboard.press("Backspace")
    await page.keyboard.press("Enter")
    for kind in ("Customers", "Mitras", "Payments"):
        await expect(dialog.get_by_role("region", name=kind).get_by_role("link")).to_have_count(1)
    await expect(dialog.get_by_role("region", name="Failed pairings")).to_have_count(0)
    await no_violations_in_both_themes(window, "search")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(dialog.get_by_role("region", name="Mitras").get_by_role("link")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")  # stays at the last one
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(f"#/payments/{pending['payment_request_id']}$"))
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("heading", name="Payment", exact=True)).to_be_focused()
    await page.keyboard.press("/")
    await page.keyboard.type(name)
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("link")).not_to_have_count(0)
    await page.keyboard.press("Enter")  # opens the first result
    await expect(page.get_by_role("heading", name=name)).to_be_focused()
    assert await page.evaluate("document.seen") is True


async def test_closed_search_returns_the_focus_and_its_key_can_be_switched_off(window: BrowserWindow) -> None:
    page = window.page
    await window.open("#/payments")
    await window.settled()
    field = page.get_by_label("Name or id")
    link = page.get_by_role("link", name="Webhook log")
    await link.focus()
    await page.keyboard.press("/")
    dialog = page.get_by_role("dialog", name=SEARCH)
    await page.keyboard.type("no such name or id")
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_text("Nothing found.")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(link).to_be_focused()
    await field.focus()
    await page.keyboard.press("/")
    await expect(field).to_have_value("/")
    await expect(dialog).to_have_count(0)
    await page.evaluate("localStorage.setItem('sesi.preferences', JSON.stringify({ shortcuts: false }))")
    await link.focus()
    await page.keyboard.press("/")
    await expect(dialog).to_have_count(0)
    button = page.get_by_role("button", name=SEARCH)
    await button.click()
    await page.keyboard.press("Escape")
    await expect(button).to_be_focused()


async def test_search_names_what_a_role_does_not_see_and_says_when_look_ups_are_used_up(
    browser: Browser, world: World
) -> None:
    clerk = await an_operator(world, {"customers": "read", "payments": "read"})
    number = f"+62812{new_id()[-8:].translate(str.maketrans('abcdef', '123456'))}"
    async with open_window(browser, world.stack.addresses.internal, **PHONE) as window:
        page = window.page
        await window.signed_in(clerk.client)
        await window.open("#/customers")
        await window.settled()
        await page.get_by_role("button", name=SEARCH).click()
        dialog = page.get_by_role("dialog", name=SEARCH)
        await expect(dialog.get_by_text("or a whole phone number (30 an hour)")).to_be_visible()
        await dialog.get_by_label("Search for").fill(number)
        await dialog.get_by_role("button", name="Search").click()
        hidden = "Your role doesn't see: Mitras, Failed pairings, Sessions, Webhook calls."
        await expect(dialog.get_by_text(hidden)).to_be_visible()
        for _ in range(29):
            await clerk.client.get("/internal/customers", q=number)
        await dialog.get_by_role("button", name="Search").click()
        await expect(dialog.get_by_text("You have looked up 30 phone numbers within an hour.")).to_be_visible()
        await no_violations(window, "used up")
        await check_page_fits_window(window, "search")


async def test_role_without_personal_data_finds_a_customer_by_a_whole_number(browser: Browser, world: World) -> None:
    customer = await phone_customer(world, name=unique("Ratna"))
    number = customer.user["phone"]
    clerk = await an_operator(world, {"customers": "read", "payments": "read"})
    payment = await world.request(customer)
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.signed_in(clerk.client)
        for path, cell in (("customers", customer.user["display_name"]), ("payments", "Rp 12.000")):
            await window.open(f"#/{path}")
            await window.settled()
            await page.get_by_label("Name or id").fill(f"0{number.removeprefix('+62')}")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("row")).to_have_count(2)
            await expect(page.get_by_role("row").nth(1)).to_contain_text(cell)
            assert number not in await page.locator("main").inner_text()
        await page.get_by_role("row").nth(1).get_by_role("link").first.click()
        await expect(page).to_have_url(re.compile(f"#/payments/{payment['payment_request_id']}$"))


# -- payments and their refunds


async def test_payment_failure_and_refund_lead_to_each_other(window: BrowserWindow, world: World) -> None:
    page, failure = window.page, await a_failure(world, name := unique("Zahra"))
    payment = failure["payment_request_id"]
    await window.open("#/payments")
    await window.settled()
    await page.get_by_label("Name or id").fill(name)
    await page.get_by_label("Refunds").select_option("to refund")
    await page.get_by_role("button", name="Search").click()
    row = page.get_by_role("row").filter(has_text=name)
    await expect(row.get_by_text("to refund")).to_be_visible()
    await row.get_by_role("link").first.click()
    await page.get_by_role("link", name="What to do about it").click()
    await expect(page).to_have_url(re.compile(f"#/failed-pairings/{failure['id']}$"))
    await page.get_by_role("link", name=payment).click()
    await expect(page.locator(".facts").get_by_text("to refund")).to_be_visible()
    root = await world.operator()
    await root.post(f"{FAILURES}/{failure['id']}/refund", {})
    await window.open(f"#/payments?q={payment}&refund=refunding")
    await expect(page.get_by_role("row").filter(has_text=name).get_by_text("refunding")).to_be_visible()
    await world.stack.sql("UPDATE refunds SET ask_at = requested_at WHERE failure_id = $1::uuid", failure["id"])
    await world.until(lambda: root.get(f"{FAILURES}/{failure['id']}"), lambda one: one["operator_action"])
    await window.open(f"#/payments?q={payment}&refund=refunded")
    await expect(page.get_by_role("row").filter(has_text=name).get_by_text("refunded")).to_be_visible()
    await window.open(f"#/payments/{payment}")
    (given,) = (await root.get("/internal/payment-requests", q=payment))["items"]
    facts = page.locator(".facts")
    await expect(facts.get_by_text(given["refund_reference"], exact=True)).to_be_visible()
    await expect(facts.get_by_text(given["gateway_refund_id"], exact=True)).to_be_visible()


async def test_partly_refunded_chat_shows_how_much_and_its_reference(window: BrowserWindow, world: World) -> None:
    page, root = window.page, await world.operator()
    customer, mitra = await world.customer("Wati"), await world.mitra("Ayu")
    session = await root.get(f"/internal/sessions/{await world.session(customer, mitra)}")
    paid = f"/internal/payment-requests/{session['payment_request_id']}"
    body = {"amount": 5_000, "reason": "late", "by_hand": True, "reference": "BCA-7712-A"}
    await root.post(f"{paid}/refund", body)
    await window.open(f"#/payments/{session['payment_request_id']}")
    await expect(page.locator(".facts").get_by_text("refunded Rp 5.000")).to_be_visible()
    await expect(page.locator(".facts").get_by_text("BCA-7712-A").first).to_be_visible()
    await page.locator(".facts").get_by_role("link", name="Wati").click()
    tiles = page.get_by_role("region", name="Sums").locator(".tile")
    await expect(tiles).to_have_text(["Rp 12.000paid", "Rp 12.000earned", "Rp 5.000refunded", "1chats"])
    await root.post(f"{paid}/refund", {"amount": 1_000, "reason": "still late"})
    await page.reload()
    row = page.get_by_role("table", name="Refunds").get_by_role("row").nth(1)
    await expect(row.get_by_text("refunding")).to_be_visible()
    await expect(page.get_by_role("table", name="Refunds").get_by_role("row")).to_have_count(2)  # with the head


async def test_names_in_lists_lead_to_their_people(window: BrowserWindow, world: World) -> None:
    page, name = window.page, unique("Tini")
    customer, mitra = await world.customer(name), await world.mitra("Ayu Lestari")
    session_id = await world.session(customer, mitra)
    await window.open(f"#/payments?q={name}")
    await page.get_by_role("row").get_by_role("link", name=name).click()
    await expect(page.get_by_role("heading", name=name)).to_be_visible()
    await page.get_by_role("table", name="Chats").get_by_role("link", name="Ayu Lestari").click()
    await expect(page).to_have_url(re.compile(f"#/mitras/{mitra.user['id']}$"))
    await expect(page.get_by_role("table", name="Chats").get_by_role("link", name=name)).to_be_visible()
    await window.open(f"#/sessions?q={session_id}")
    await page.get_by_role("row").get_by_role("link", name="Ayu Lestari").click()
    await expect(page.get_by_role("heading", name="Ayu Lestari")).to_be_visible()


async def test_failures_lead_to_their_people_and_people_to_their_reports(browser: Browser, world: World) -> None:
    name = unique("Wening")
    failure, customer = await a_failure(world, name), await world.customer(name)
    session_id = await world.session(customer, await world.mitra())
    report = await customer.post(f"/api/shared/chat/sessions/{session_id}/report", {"reason": "rude"})
    areas = {"failed_pairings": "read", "customers": "read", "reports": "read"}
    for permissions in (areas, {"failed_pairings": "read"}):
        clerk = await an_operator(world, permissions)
        async with open_window(browser, world.stack.addresses.internal) as window:
            page = window.page
            await window.signed_in(clerk.client)
            await window.open(f"#/failed-pairings?q={name}")
            links = page.get_by_role("row").filter(has_text=name).get_by_role("link")
            await expect(links.first).to_have_attribute("href", f"#/failed-pairings/{failure['id']}")
            if permissions is not areas:  # the person's page is not shown to this role
                await expect(links).to_have_count(1)
                continue
            await links.filter(has_text=name).click()
            await expect(page).to_have_url(re.compile(f"#/customers/{failure['customer']['id']}$"))
            await window.open(f"#/customers/{customer.user['id']}")
            await page.get_by_role("table", name="Reports").get_by_role("row").nth(1).get_by_role("link").first.click()
            await expect(page).to_have_url(re.compile(f"#/reports/{report['id']}$"))


# -- acts on a customer


async def test_customer_is_renamed_blocked_and_unblocked(window: BrowserWindow, world: World) -> None:
    page, customer = window.page, await world.customer("Dwei")
    path = f"/internal/customers/{customer.user['id']}"
    root = await world.operator()
    await window.open(f"#/customers/{customer.user['id']}")
    await page.get_by_role("button", name="Correct the name…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Name")).to_have_value("Dwei")
    await dialog.get_by_label("Name").fill("Dewi")
    await no_violations(window, "name")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name="Dewi", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Block…").click()
    await dialog.get_by_role("button", name="Block", exact=True).click()
    await expect(dialog.get_by_label("Reason")).to_have_attribute("aria-invalid", "true")
    await dialog.get_by_label("Reason").fill("Insulted three mitras")
    await dialog.get_by_label("Until").fill("2020-01-31T22:00")
    await dialog.get_by_role("button", name="Block", exact=True).click()
    await expect(dialog.get_by_label("Until")).to_have_attribute("aria-invalid", "true")  # it is over
    await dialog.get_by_label("Until").fill("2099-01-31T22:00")
    await no_violations(window, "block")
    await dialog.get_by_role("button", name="Block", exact=True).click()
    await expect(page.get_by_text("Dewi is blocked.")).to_be_visible()
    await expect(page.get_by_text(re.compile("blocked until 31 Jan 2099, 22:00"))).to_be_visible()
    await expect(page.locator(".facts").get_by_text("Insulted three mitras")).to_be_visible()
    assert (await root.get(path))["block"]["until"] == "2099-01-31T15:00:00Z"
    await page.get_by_role("button", name="Lift the block…").click()
    await dialog.get_by_role("button", name="Lift the block").click()
    await expect(page.get_by_text("The block is lifted.")).to_be_visible()
    assert (await root.get(path))["block"] is None


async def test_last_device_of_an_anonymous_customer_is_asked_about_twice(window: BrowserWindow, world: World) -> None:
    page, customer = window.page, await world.customer("Eka")
    await window.open(f"#/customers/{customer.user['id']}")
    for wanted in ("Cancel", "Sign out for good"):
        await page.get_by_role("button", name="Sign out everywhere…").click()
        await page.get_by_role("dialog").get_by_role("button", name="Sign out").click()
        again = page.get_by_role("dialog", name="End the only way into this account?")
        await expect(again).to_contain_text("They can never enter this account again")
        await again.get_by_role("button", name=wanted).click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_text("Not signed in on any device.")).to_be_visible()
    await expect(page.get_by_text("Signed out.")).to_have_count(1)


async def test_device_of_a_mitra_is_signed_out(window: BrowserWindow, world: World) -> None:
    page, mitra = window.page, await world.mitra("Fitri")
    await window.open(f"#/mitras/{mitra.user['id']}")
    await page.get_by_role("table", name="Devices").get_by_role("button", name="Sign out…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Sign out").click()
    await expect(page.get_by_text("Not signed in on any device.")).to_be_visible()
    await expect(page.locator(".chip").get_by_text("offline")).to_be_visible()


async def test_customer_is_exported_and_erased_with_a_fresh_code(browser: Browser, world: World) -> None:
    me = await an_enrolled_operator(world, {"customers": "write", "customers.pii": "read"})
    customer = await phone_customer(world, name="Gita")
    async with open_window(browser, world.stack.addresses.internal) as window:
        page, dialog = window.page, window.page.get_by_role("dialog")
        await window.signed_in(me.client)
        await window.open(f"#/customers/{customer.user['id']}")
        await page.get_by_role("button", name="Export…").click()
        await no_violations(window, "export")
        await dialog.get_by_role("button", name="Download").click()
        code = page.get_by_role("dialog", name="Enter a code")
        await code.get_by_label("Code").fill(await fresh_code(me))
        async with page.expect_download() as saving:
            await code.get_by_role("button", name="Confirm").click()
        saved = await saving.value
        assert saved.suggested_filename == f"sesi-{customer.user['id']}.json"
        copy: dict[str, Any] = json.loads((await saved.path()).read_text())
        assert copy["profiles"][0]["phone"] == customer.user["phone"]
        await page.get_by_role("button", name="Erase…").click()
        await no_violations(window, "erase")
        await dialog.get_by_label("Type the name").fill("Gito")
        await dialog.get_by_role("button", name="Erase").click()
        await expect(dialog.get_by_text("This is not what is asked for.")).to_be_visible()
        await dialog.get_by_label("Type the name").fill("Gita")
        await dialog.get_by_role("button", name="Erase").click()
        await expect(page.get_by_text("Gita is erased.")).to_be_visible()
        await expect(page.get_by_role("heading", name="no name")).to_be_visible()
        await expect(page.locator(".chip").get_by_text("erased")).to_be_visible()
        await expect(page.get_by_role("button", name="Erase…")).to_have_count(0)


async def test_mitra_is_exported_and_once_deactivated_erased_with_a_fresh_code(browser: Browser, world: World) -> None:
    me = await an_enrolled_operator(world, {"mitras": "write", "customers.pii": "read"})
    mitra = await world.mitra("Indah")
    async with open_window(browser, world.stack.addresses.internal) as window:
        page, dialog = window.page, window.page.get_by_role("dialog")
        await window.signed_in(me.client)
        await window.open(f"#/mitras/{mitra.user['id']}")
        await page.get_by_role("button", name="Export…").click()
        await expect(dialog).to_contain_text("nothing about their customers")
        await dialog.get_by_role("button", name="Download").click()
        code = page.get_by_role("dialog", name="Enter a code")
        await code.get_by_label("Code").fill(await fresh_code(me))
        async with page.expect_download() as saving:
            await code.get_by_role("button", name="Confirm").click()
        copy: dict[str, Any] = json.loads((await (await saving.value).path()).read_text())
        assert copy["profiles"][0]["phone"] == mitra.user["phone"]
        await expect(page.get_by_role("button", name="Erase…")).to_have_count(0)
        await page.get_by_role("button", name="Deactivate…").click()
        await dialog.get_by_role("button", name="Deactivate").click()
        await page.get_by_role("button", name="Erase…").click()
        await no_violations(window, "erase")
        await dialog.get_by_label("Type the name").fill("Indah")
        await dialog.get_by_role("button", name="Erase").click()
        await expect(page.get_by_text("Indah is erased.")).to_be_visible()
        await expect(page.get_by_role("heading", name="no name")).to_be_visible()
        await expect(page.locator(".chip").get_by_text("erased")).to_be_visible()
        for name in ("Edit…", "Activate", "Export…", "Erase…"):
            await expect(page.get_by_role("button", name=name)).to_have_count(0)


async def fresh_code(me: Any) -> str:
    await me.forget_steps()
    return me.code()


async def test_reader_of_customers_sees_the_case_without_the_acts(browser: Browser, world: World) -> None:
    customer = await world.customer("Hana")
    clerk = await an_operator(world, {"customers": "read"})
    async with open_window(browser, world.stack.addresses.internal) as window:
        page = window.page
        await window.signed_in(clerk.client)
        await window.open(f"#/customers/{customer.user['id']}")
        await expect(page.get_by_role("table", name="Devices")).to_be_visible()
        for name in ("Block…", "Erase…", "Export…", "Sign out everywhere…", "Correct the name…"):
            await expect(page.get_by_role("button", name=name)).to_have_count(0)
        for heading in ("Payments", "Chats", "Reports", "Refunds"):
            await expect(page.get_by_role("heading", name=heading)).to_have_count(0)


# -- the audit log and the requests, by names


async def test_audit_log_shows_names_and_is_filtered_by_them(window: BrowserWindow, world: World) -> None:
    page, root = window.page, await world.operator()
    tier = await root.post("/internal/pricing/tiers", {"mode": "call", "minutes": 83, "price_idr": 60_000})
    clerk = await an_operator(world, {"pricing": "write"})
    body = {"updated_at": tier["updated_at"], "price_idr": 61_000}
    changed = await clerk.client.call("PATCH", f"/internal/pricing/tiers/{tier['id']}", body)
    await window.open("#/audit-log")
    await window.settled()
    await page.get_by_label("Operator").select_option(clerk.id)
    await page.get_by_role("button", name="Search").click()
    row = page.get_by_role("row").nth(1)
    await expect(row).to_contain_text("Tier: 83 min, call")
    await expect(row).to_contain_text("Price: Rp 60.000 → Rp 61.000")
    await expect(row).not_to_contain_text("updated_at")
    await expect(page.get_by_label("Operator")).to_have_value(clerk.id)
    mitra = await world.mitra(online=False)
    await window.open(f"#/audit-log?object_id={mitra.user['id']}")
    await expect(page.get_by_role("row").nth(1).locator("summary")).to_have_text("phone, is_active, display_name")
    token = {"updated_at": changed["updated_at"]}
    await root.call("DELETE", f"/internal/pricing/tiers/{tier['id']}", params=token)


async def test_requests_are_filtered_by_the_name_of_a_mitra(window: BrowserWindow, world: World) -> None:
    page, name = window.page, unique("Indah")
    mitra = await world.mitra(name)
    session_id = await world.session(await world.customer(), mitra)
    await window.open("#/activity/log")
    await window.settled()
    await page.get_by_role("search").get_by_label("Mitra").select_option(name)
    await page.get_by_role("button", name="Search").click()
    await expect(page.get_by_role("row")).to_have_count(2)
    await expect(page.get_by_role("row").nth(1).get_by_role("link", name=name)).to_be_visible()
    await expect(page.get_by_role("row").nth(1).get_by_role("link").first).to_have_attribute(
        "href", f"#/sessions/{session_id}"
    )
    await expect(page.get_by_text("Times are in the zone Asia/Jakarta.")).to_be_visible()
