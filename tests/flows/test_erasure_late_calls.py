"""What the gateway reports about an erased customer is stored without the payer's data, however its handling ends."""

import asyncio
import datetime as dt
import json
from typing import Any

import pytest

from core.base import ids
from core.base.clock import monotonic
from core.erasures.rules import RequestedBy
from core.idempotency import store as idempotency
from core.idempotency.rules import keyed_request
from core.pairing import request as payment_request
from core.payments import gateway_events
from core.payments.webhooks import erasing as webhook_erasing
from core.payments.webhooks import process as webhook_process
from core.payments.webhooks import receive as webhook_receive
from core.payments.webhooks import store as webhooks
from core.payments.webhooks.store import Received
from core.privacy import erase as erasure
from core.privacy import erase_rest
from core.privacy.erase import Requester
from core.providers.gateway import Invoice
from core.runtime.container import Runtime
from tests.clock import HandClock
from tests.flows.conftest import ADDRESS, WISH, Harness

PAYER = "melati@example.test"
BODIES = "SELECT convert_from(raw_body, 'UTF8') AS body FROM webhook_logs WHERE id = ANY($1) ORDER BY id"
COMPLETED = "SELECT completed_at FROM erasures WHERE user_id = $1"
BY_COMMAND = Requester(by=RequestedBy.COMMAND_LINE)


async def erased(harness: Harness, *, invoice: str | None = None) -> str:
    """Return the pending request of a customer who is erased then."""
    customer = await harness.customer()
    made = await payment_request.request_payment(harness.runtime, customer, WISH, address=ADDRESS)
    if invoice is not None:
        sql = "UPDATE payment_requests SET gateway_invoice_id = $2 WHERE id = $1"
        await harness.runtime.db.fetch(sql, made.payment_request_id, invoice)
    await erasure.erase_customer(harness.runtime, customer.user_id, BY_COMMAND)
    return made.payment_request_id


async def stored(
    runtime: Runtime, request_id: str | None, *, invoice: str | None = None, age: dt.timedelta = dt.timedelta()
) -> Received:
    """Store a call, as the first transaction of its handling does."""
    body = {"id": invoice, "external_id": request_id, "status": "PAID", "amount": 12_000, "payer_email": PAYER}
    call = Received(
        id=ids.new_id(), received_at=runtime.now() - age, source_ip="127.0.0.1", headers={}, token_valid=True,
        external_id=request_id, gateway_invoice_id=invoice, status="PAID", amount="12000", app_tag=None,
        raw_body=json.dumps(body).encode(), truncated=False,
    )  # fmt: skip
    async with runtime.transaction() as tx:
        assert await webhooks.record(tx, call)
    return call


def logged(runtime: Runtime, call: webhooks.Received) -> webhook_process.WebhookCall:
    """Return a call whose row is in the log."""
    content = webhook_process.parse(runtime, call.raw_body).content
    return webhook_process.WebhookCall(received=call, content=content, is_logged=True)


async def bodies(runtime: Runtime, *calls: Received) -> list[str]:
    return [row["body"] for row in await runtime.db.fetch(BODIES, sorted(call.id for call in calls))]


def test_call_that_its_process_abandoned_is_masked_when_it_is_closed(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        request_id = await erased(clean_harness, invoice="inv-abandoned")
        minutes = dt.timedelta(minutes=5)
        by_request = await stored(runtime, request_id.upper(), age=minutes)
        by_invoice = await stored(runtime, None, invoice="inv-abandoned", age=minutes)
        of_another = await stored(runtime, ids.new_id(), invoice="inv-another", age=minutes)
        await webhook_receive.close_abandoned_calls(runtime)
        for body in await bodies(runtime, by_request, by_invoice):
            assert PAYER not in body
            assert '"PAID"' in body
        assert PAYER in (await bodies(runtime, of_another))[0]
        left = "SELECT count(*) FROM webhook_logs WHERE http_status IS NULL"
        assert await runtime.db.fetchval(left) == 0

    clean_harness.run(play())


@pytest.mark.parametrize(
    "lock", ["SELECT FROM payment_requests FOR UPDATE", "LOCK TABLE payment_requests IN ACCESS EXCLUSIVE MODE"]
)
def test_call_that_ends_in_an_exception_is_masked_at_once_or_by_the_sweep(clean_harness: Harness, lock: str) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        request_id = await erased(clean_harness)
        call = await stored(runtime, request_id, invoice="inv-failed", age=dt.timedelta(minutes=5))
        async with runtime.transaction() as tx:
            await tx.execute(lock)  # until the time for the answer is over; for a whole table also that of the mask
            answer = await webhook_process.process(runtime, logged(runtime, call), monotonic() + 0.3)
        assert answer.processing_result == "error"
        await webhook_receive.close_abandoned_calls(runtime)
        (body,) = await bodies(runtime, call)
        assert PAYER not in body
        assert '"PAID"' in body
        row = "SELECT http_status, processing_result, processing_error, token_valid FROM webhook_logs WHERE id = $1"
        assert tuple(await runtime.db.fetchrow(row, call.id)) == (500, "error", "TimeoutError", True)

    clean_harness.run(play())


def test_call_that_names_only_the_invoice_is_masked_with_earlier_ones(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        await erased(clean_harness, invoice="inv-only")
        earlier = await stored(runtime, None, invoice="inv-only")
        call = await stored(runtime, "not an id", invoice="inv-only")
        await webhook_process.process(runtime, logged(runtime, call), monotonic() + 5)
        assert not any(PAYER in body for body in await bodies(runtime, earlier, call))

    clean_harness.run(play())


def test_call_about_an_erased_customer_has_all_earlier_ones_masked_by_the_sweep(empty_harness: Harness) -> None:
    runtime = empty_harness.runtime
    clock = runtime.clock = HandClock(runtime.now())

    async def play() -> None:
        request_id = await erased(empty_harness)
        clock.advance(120)
        await erase_rest.go_on(runtime)
        completed = "SELECT count(*) FROM erasures WHERE completed_at IS NOT NULL"
        assert await runtime.db.fetchval(completed) == 1
        # They name an invoice that the service does not know yet.
        earlier = [await stored(runtime, None, invoice="inv-late") for _ in range(webhook_erasing.AT_ONCE + 1)]
        sql = "UPDATE payment_requests SET gateway_invoice_id = 'inv-late' WHERE id = $1"
        await runtime.db.fetch(sql, request_id)
        call = await stored(runtime, request_id, invoice="inv-late")
        await webhook_process.process(runtime, logged(runtime, call), monotonic() + 30)
        assert PAYER not in (await bodies(runtime, call))[0]
        clock.advance(120)
        await erase_rest.go_on(runtime)
        assert not any(PAYER in body for body in await bodies(runtime, *earlier))
        assert await runtime.db.fetchval(completed) == 1

    empty_harness.run(play())


@pytest.mark.parametrize("is_erased", [True, False])
def test_polled_invoice_of_an_erased_customer_is_stored_masked(clean_harness: Harness, is_erased: bool) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        customer = await clean_harness.customer()
        made = await payment_request.request_payment(runtime, customer, WISH, address=ADDRESS)
        request_id = made.payment_request_id
        if is_erased:
            await erasure.erase_customer(runtime, customer.user_id, BY_COMMAND)
        body: dict[str, Any] = {
            "id": f"inv-{request_id}", "external_id": request_id, "status": "PAID", "amount": 1, "payer_email": PAYER,
        }  # fmt: skip
        found = Invoice(id=body["id"], url="", status="PAID", body=body)
        async with runtime.transaction() as tx:
            await gateway_events.keep_conflict(tx, found, payment_request_id=request_id, note="too little")
        sql = "SELECT convert_from(raw_body, 'UTF8') FROM webhook_logs WHERE external_id = $1"
        kept = await runtime.db.fetchval(sql, request_id)
        assert '"PAID"' in kept
        assert (PAYER in kept) is not is_erased

    clean_harness.run(play())


def test_locked_key_is_skipped_and_keeps_the_erasure_open(empty_harness: Harness) -> None:
    runtime = empty_harness.runtime
    clock = runtime.clock = HandClock(runtime.now())

    async def play() -> None:
        customer = await empty_harness.customer()
        keyed = keyed_request(user_id=customer.user_id, key="a-key", operation="rename", body={})
        async with runtime.transaction() as tx:
            await idempotency.keep(tx, keyed, http_status=200, answer='{"name":"Dewi"}')
        async with runtime.transaction() as other:
            assert await idempotency.find(other, keyed, now=other.now) is not None
            async with asyncio.timeout(5):
                await erasure.erase_customer(runtime, customer.user_id, BY_COMMAND)
            clock.advance(120)
            await erase_rest.go_on(runtime)
            assert await runtime.db.fetchval(COMPLETED, customer.user_id) is None
        await erase_rest.go_on(runtime)
        assert await runtime.db.fetchval(COMPLETED, customer.user_id) is not None
        assert await runtime.db.fetchval("SELECT count(*) FROM idempotency_keys") == 0

    empty_harness.run(play())
