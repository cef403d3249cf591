"""Take pictures of the apps for the README and the docs (`make pages PICTURES=1`)."""

import asyncio
import pathlib
import sys

from playwright.async_api import BrowserContext, expect

from tests.apps.people import NUMBERS, TEST_NUMBERS, CustomerApp, MitraApp, mitra_account
from tests.pages.browser import PHONE, SKIPPED, WAIT_MS, chromium, launched
from tests.stack import Stack, World

FOLDER = pathlib.Path("docs/apps")
MITRAS = {"Ayu": NUMBERS[0], "Bima": NUMBERS[1]}
SIDE_BY_SIDE = {"width": 1400, "height": 980}
TALK = [
    "Halo Kak, aku butuh teman bicara.",
    "Halo Dewi, aku di sini. Ceritakan pelan-pelan.",
    "Pekerjaanku terasa berat sekali minggu ini.",
]


async def _play(context: BrowserContext, world: World) -> None:
    """Take the pictures while a customer and two mitras meet."""
    dewi = CustomerApp(world, await context.new_page(), frame="c1")
    desks = [MitraApp(world, await context.new_page(), frame=f"m{n}") for n in (1, 2)]
    for (name, number), desk in zip(MITRAS.items(), desks, strict=True):
        await mitra_account(world, name, number)
        await desk.start(number)
    ayu, bima = desks
    await dewi.start("Dewi", topics=("Work", "Sleep"))
    await dewi.choose_minutes(12)
    await dewi.pay()
    await expect(bima.page.get_by_role("button", name="Accept: Dewi")).to_be_visible()
    await bima.page.screenshot(path=FOLDER / "mitra-request.png")
    await ayu.accept("Dewi")
    for n, text in enumerate(TALK):
        writer, reader = (dewi, ayu) if n % 2 == 0 else (ayu, dewi)
        await writer.write(text)
        await expect(reader.message(text)).to_be_visible()
    await dewi.sees_state(TALK[-1], "Read")
    await dewi.page.screenshot(path=FOLDER / "customer-chat.png")
    for app in (dewi, *desks):
        await app.page.close()


async def _side_by_side(context: BrowserContext, world: World) -> None:
    """Take the page with the three phones, which go on where the windows were."""
    page = await context.new_page()
    await page.set_viewport_size({**SIDE_BY_SIDE})
    await page.goto(f"{world.stack.addresses.public}/try/?lang=en")
    customer, ayu, bima = (page.locator("iframe").nth(n).content_frame for n in range(3))
    await customer.get_by_role("link", name="Your chat with Ayu").click()
    await ayu.get_by_role("link", name="Dewi").click()
    for frame in (customer, ayu):
        await expect(frame.get_by_role("log").get_by_text(TALK[-1])).to_be_visible()
    await expect(bima.get_by_text("You are online")).to_be_visible()
    await page.screenshot(path=FOLDER / "side-by-side.png")


async def _all(stack: Stack, program: str) -> None:
    world = World(stack)
    async with launched(program) as browser:
        expect.set_options(timeout=WAIT_MS)
        phone = await browser.new_context(**PHONE, color_scheme="light", timezone_id="Asia/Jakarta")
        await _play(phone, world)
        wide = await browser.new_context(
            storage_state=await phone.storage_state(indexed_db=True), color_scheme="light", timezone_id="Asia/Jakarta"
        )
        await phone.close()
        await _side_by_side(wide, world)
    await world.close()


def main() -> int:
    """Take the pictures. Return 1 without Chromium."""
    program = chromium()
    if program is None:
        sys.stderr.write(f"{SKIPPED}\n")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    stack = Stack(**TEST_NUMBERS)
    try:
        asyncio.run(_all(stack, program))
    finally:
        stack.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
