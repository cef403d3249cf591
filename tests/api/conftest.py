"""The worlds of these tests: many codes from one address, and no search is left for other tests' mitras to find."""

from collections.abc import AsyncIterator

import pytest

from tests.stack import World

# Paid requests of these customers that still look for a mitra.
SEARCHING = """SELECT p.id::text, p.customer_id::text FROM payment_requests p
  WHERE p.status = 'confirmed' AND NOT p.is_extension AND p.customer_id = ANY($1::uuid[])"""


async def leave_searches(world: World) -> None:
    """Cancel what the test's customers still search for."""
    customers = {client.user["id"]: client for client in world.clients if "is_anonymous" in client.user}
    for request_id, customer_id in await world.stack.sql(SEARCHING, list(customers)):
        await customers[customer_id].post("/api/client/chat/cancel", {"payment_request_id": request_id})


@pytest.fixture
async def world(world: World) -> AsyncIterator[World]:
    """The people of a test, at real speed."""
    await world.config("otp_max_per_ip_per_hour", 1_000_000)
    yield world
    await leave_searches(world)


@pytest.fixture
async def fast_world(fast_world: World) -> AsyncIterator[World]:
    """The people of a test, at sixty times the speed."""
    await fast_world.config("otp_max_per_ip_per_hour", 1_000_000)
    yield fast_world
    await leave_searches(fast_world)
