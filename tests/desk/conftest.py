"""The worlds of these tests are those of the api's."""

from tests.api.conftest import fast_world, world

__all__ = ["fast_world", "world"]
