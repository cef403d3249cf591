"""A browser for the tests of the apps, worlds without the limit of codes for an address, and a customer's app."""

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser

from tests.apps.people import TEST_NUMBERS, CustomerApp, customer_app
from tests.http.conftest import fast_world, world
from tests.pages.conftest import browser
from tests.stack import Stack, World

__all__ = ["browser", "fast_world", "world"]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Start a service that knows the codes of some numbers."""
    made = Stack(**TEST_NUMBERS)
    yield made
    made.close()


@pytest.fixture
async def dewi(browser: Browser, world: World) -> AsyncIterator[CustomerApp]:
    """Open the app of a customer."""
    async with customer_app(browser, world) as app:
        yield app
