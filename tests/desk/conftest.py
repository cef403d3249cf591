"""The worlds of tests/api, used here as well."""

from tests.api.conftest import fast_world, world

__all__ = ["fast_world", "world"]
