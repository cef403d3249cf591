"""The frames and bodies under the vectors are what the service sends now."""

import json
from collections.abc import Iterator

import pytest

from tests.stack import Stack
from tests.vectors import record

pytestmark = pytest.mark.anyio


@pytest.fixture
def limited_stack() -> Iterator[Stack]:
    """Run a service with its limit of frames, which the shared one has not."""
    made = Stack()
    yield made
    made.close()


async def test_recorded_frames_and_bodies_are_those_of_the_service(limited_stack: Stack) -> None:
    recorded = json.loads(record.FILE.read_text(encoding="utf-8"))
    assert await record.record(limited_stack) == recorded, "`python -m tests.vectors.record` records them again"
