"""A browser for the tests of the apps, and worlds without the limit of codes for an address."""

from tests.http.conftest import fast_world, world
from tests.pages.conftest import browser

__all__ = ["browser", "fast_world", "world"]
