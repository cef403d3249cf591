"""A browser for the tests of the folder, and windows in it."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.http.conftest import world
from tests.pages.browser import SKIPPED, BrowserWindow, chromium, launched, open_window
from tests.stack import World

__all__ = ["world"]


@pytest.fixture(scope="package")
async def browser() -> AsyncIterator[Browser]:
    """Start a browser for all tests of a folder; without one they are skipped with a message."""
    program = chromium()
    if program is None:
        pytest.skip(SKIPPED)
    async with launched(program) as made:
        yield made


@pytest.fixture
async def window(browser: Browser, world: World) -> AsyncIterator[BrowserWindow]:
    """Open the administrator's window."""
    async with open_window(browser, world.stack.addresses.internal) as made:
        await made.signed_in(await world.operator())
        yield made
