"""`sesi gateway reconcile`: what it prints, returns and takes. The service runs at real speed: no poll comes first."""

import asyncio
import datetime as dt
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from core.base.clock import as_text
from tests.http.gateway.simulated_gateway import SimulatedGateway
from tests.stack import Stack, World, new_id

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module")
def simulated() -> Iterator[SimulatedGateway]:
    """Yield a gateway that knows no invoices of other tests."""
    made = SimulatedGateway()
    yield made
    made.close()


@pytest.fixture(scope="module")
def stack(simulated: SimulatedGateway) -> Iterator[Stack]:
    """Yield a service with the gateway enabled."""
    made = Stack(scale=1, **simulated.environment)
    yield made
    made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """Yield the users of the test."""
    made = World(stack)
    yield made
    await made.close()


async def reconcile(stack: Stack, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Compare the last two hours."""
    since = as_text(dt.datetime.now(dt.UTC) - dt.timedelta(hours=2))
    return await asyncio.to_thread(stack.command, "gateway", "reconcile", "--since", since, *more, check=False, **env)


async def test_lost_payment_is_printed_then_taken_and_its_search_begins(
    world: World, simulated: SimulatedGateway
) -> None:
    customer = await world.customer()
    payment: dict[str, Any] = await world.request(customer)
    request_id = payment["payment_request_id"]
    at = as_text(dt.datetime.now(dt.UTC) - dt.timedelta(hours=1))
    simulated.pay(request_id, created=at, paid_at=at)

    printed = await reconcile(world.stack)
    assert printed.returncode == 1, printed.stderr
    assert f"paid at the gateway, not confirmed here │ {request_id} │ pending" in " ".join(printed.stdout.split())
    found = json.loads((await reconcile(world.stack, "--json")).stdout)
    assert (found["invoices"], found["requests"]) == (1, 1)
    assert found["differences"] == [
        {
            "difference": "paid_not_confirmed",
            "payment_request_id": request_id,
            "status": "pending",
            "amount": payment["amount"],
            "gateway_invoice_id": f"inv-{request_id}",
            "invoice_status": "PAID",
            "invoice_amount": payment["amount"],
            "paid_amount": payment["amount"],
            "taken": None,
        }
    ]
    taken = await reconcile(world.stack, "--json", "--apply")
    assert (taken.returncode, json.loads(taken.stdout)["differences"][0]["taken"]) == (0, "confirmed")
    await world.until(
        lambda: customer.get(f"/api/client/payment/requests/{request_id}"), lambda seen: seen["session_id"] is not None
    )
    assert (await reconcile(world.stack)).returncode == 0
    await customer.post("/api/client/chat/cancel", {"payment_request_id": request_id})


async def test_refund_that_the_service_does_not_have_is_printed_if_refunds_are_on(
    world: World, simulated: SimulatedGateway
) -> None:
    at, failure_id = as_text(dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)), new_id()
    simulated.refunds.made["rfd-1"] = {
        "id": "rfd-1", "reference_id": failure_id, "invoice_id": "inv-lost", "amount": 12_000, "currency": "IDR",
        "status": "SUCCEEDED", "metadata": {"app": "sesi"}, "created": at, "updated": at,
    }  # fmt: skip
    assert (await reconcile(world.stack)).returncode == 0
    printed = await reconcile(world.stack, REFUNDS_ENABLED="true")
    assert printed.returncode == 1, printed.stderr
    assert "refunded by the gateway, not recorded here" in " ".join(printed.stdout.split())
    found = json.loads((await reconcile(world.stack, "--json", "--apply", REFUNDS_ENABLED="true")).stdout)
    assert (found["refunds"], found["differences"]) == (1, [])
    assert found["refund_differences"] == [
        {
            "difference": "refund_not_recorded",
            "reference": failure_id,
            "status": None,
            "amount": None,
            "gateway_refund_id": "rfd-1",
            "gateway_status": "SUCCEEDED",
            "gateway_amount": 12_000,
        }
    ]


async def test_comparison_that_is_not_possible_says_why(world: World) -> None:
    disabled = await reconcile(world.stack, GATEWAY_ENABLED="false")
    assert disabled.returncode == 1
    assert "GATEWAY_ENABLED: expected true" in disabled.stderr
    refused = await reconcile(world.stack, GATEWAY_SECRET_KEY="another")
    assert refused.returncode == 1
    assert "refused to list its invoices" in refused.stderr
    without_zone = await reconcile(world.stack, "--since", "2026-11-25T12:00:00")
    assert without_zone.returncode == 2
    assert "must have a zone" in without_zone.stderr
