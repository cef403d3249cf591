"""Take pictures of every page for docs/control-center.md: light, dark, and on a phone (`make pages PICTURES=1`)."""

import asyncio
import base64
import pathlib
import sys
from typing import Any

from playwright.async_api import Browser, Page

from tests.pages.browser import DESK, PHONE, SKIPPED, BrowserWindow, chromium, launched, open_window
from tests.pages.scene import addresses, play
from tests.stack import PASSWORD, Stack, World

FOLDER = pathlib.Path("docs/control-center")
LOOKS: dict[str, dict[str, Any]] = {
    "light": {**DESK, "color_scheme": "light"},
    "dark": {**DESK, "color_scheme": "dark"},
    "phone": {**PHONE, "color_scheme": "light"},
}
SHEET = """<style>body {{ margin: 0; display: flex; gap: 24px; padding: 24px; background: #888; align-items: start }}
img {{ height: 640px; border-radius: 8px }}</style>{images}"""


async def _pictures(browser: Browser, world: World, names: list[str]) -> dict[str, list[bytes]]:
    pages = {"sign-in": "#/", "second-factor": "#/account"} | addresses(await play(world))
    pages = {name: address for name, address in pages.items() if name in names or not names}
    taken: dict[str, list[bytes]] = {name: [] for name in pages}
    home = world.stack.addresses.internal
    for options in LOOKS.values():
        async with open_window(browser, home, **options) as window:
            await window.open("#/")
            await window.page.get_by_label("E-mail").wait_for()
            signed_out = await window.page.screenshot()
            await window.signed_in(await world.operator())
            for name, address in pages.items():
                picture = signed_out if name == "sign-in" else await _picture(window, address)
                taken[name].append(await _set_up(window) if name == "second-factor" else picture)
    return taken


async def _set_up(window: BrowserWindow) -> bytes:
    """Take the dialog with the QR code. The second factor is not confirmed, so the administrator keeps none."""
    page = window.page
    await page.get_by_role("button", name="Set it up…").click()
    await page.get_by_role("dialog").get_by_label("Current password").fill(PASSWORD)
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("img", name="QR code of the secret").wait_for()
    picture = await page.screenshot()
    await page.keyboard.press("Escape")
    return picture


async def _picture(window: BrowserWindow, address: str) -> bytes:
    await window.open(address)
    await window.settled()
    return await window.page.screenshot()


async def _sheet(page: Page, pictures: list[bytes]) -> bytes:
    images = "".join(f'<img src="data:image/png;base64,{base64.b64encode(one).decode()}">' for one in pictures)
    await page.set_content(SHEET.format(images=images))
    return await page.screenshot(type="jpeg", quality=72, full_page=True)


async def _all(stack: Stack, program: str, names: list[str]) -> dict[str, bytes]:
    world = World(stack)
    await world.config("otp_max_per_ip_per_hour", 1_000_000)
    async with launched(program) as browser:
        taken = await _pictures(browser, world, names)
        page = await browser.new_page(viewport={"width": 2230, "height": 688})
        sheets = {name: await _sheet(page, pictures) for name, pictures in taken.items()}
    await world.close()
    return sheets


def main() -> int:
    """Take the pictures that are named, or all. Return 1 without Chromium."""
    program = chromium()
    if program is None:
        sys.stderr.write(f"{SKIPPED}\n")
        return 1
    stack = Stack()
    try:
        sheets = asyncio.run(_all(stack, program, sys.argv[1:]))
    finally:
        stack.close()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, sheet in sheets.items():
        (FOLDER / f"{name}.jpg").write_bytes(sheet)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
