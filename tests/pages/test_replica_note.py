"""Pages whose data comes from a replica say how far it is behind."""

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import expect

from tests.pages.browser import BrowserWindow
from tests.stack import Stack, World

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Run a service that reads reports by DATABASE_READ_URL; its server is the primary itself, which is current."""
    made = Stack(only_database=True)
    made.env["DATABASE_READ_URL"] = made.database_url
    made.start_all()
    yield made
    made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """Return the users of this service."""
    made = World(stack)
    yield made
    await made.close()


@pytest.mark.parametrize("path", ["/activity", "/activity/log", "/unserved", "/promises", "/audit-log", "/ledger"])
async def test_report_page_shows_the_lag_of_the_replica(window: BrowserWindow, path: str) -> None:
    await window.open(f"#{path}")
    await expect(window.page.get_by_text("Read from a replica, at most")).to_be_visible()
