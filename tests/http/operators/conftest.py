"""The worlds of tests/http/conventions, used here as well."""

from tests.http.conftest import fast_world, world

__all__ = ["fast_world", "world"]
