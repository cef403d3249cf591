"""Webhook calls without a valid token: some are stored in full, the rest is counted, and none delays a genuine call."""

import asyncio
import hashlib
import json
import time
from typing import Any

import pytest

from tests.stack import Stack, World, new_id, payment_call
from tests.verdicts import check_books
from tools.throwaway import free_port

pytestmark = pytest.mark.anyio

PATH = "/api/shared/payment/webhooks/gateway"
A_MINUTE = 60
AT_ONCE = 20  # of the calls, two are stored at the same time; one that waits for 0.8 s is only counted


async def rows_of(stack: Stack, address: str) -> tuple[int, list[Any]]:
    """Return how many calls of an address are stored in full, and the rows that count the others."""
    rows = await stack.sql(
        """SELECT processing_result, http_status, token_valid, calls, bytes, body_sha256, octet_length(raw_body) AS kept, headers::text
           FROM webhook_logs WHERE source_ip = $1""",
        address,
    )
    return (
        sum(row["processing_result"] == "unauthorized" for row in rows),
        [row for row in rows if row["processing_result"] == "flood"],
    )


async def send(world: World, calls: list[tuple[Any, str | None, str]]) -> tuple[list[tuple[int, Any]], float]:
    """Send calls, each a body, a token and an address; return their answers, and how many seconds all took."""
    tasks = []
    began = time.monotonic()
    for start in range(0, len(calls), AT_ONCE):
        async with asyncio.TaskGroup() as group:
            for body, token, address in calls[start : start + AT_ONCE]:
                tasks.append(group.create_task(world.raw_webhook(body, token=token, address=address)))
    return [task.result() for task in tasks], time.monotonic() - began


async def test_calls_without_token_above_the_limit_share_one_row_a_minute(world: World) -> None:
    address, body = "203.0.113.7", json.dumps({"filler": "x" * 1000}).encode()
    answers, took = await send(world, [(body, "wrong", address)] * 200)
    assert {status for status, _ in answers} == {401}
    full, floods = await world.until(  # an answer waits for its row or its count no longer than 0.8 s
        lambda: rows_of(world.stack, address), lambda seen: seen[0] + sum(row["calls"] for row in seen[1]) >= 200
    )
    assert A_MINUTE <= full <= A_MINUTE + 1 + took  # the limit grants one more each second
    assert 1 <= len(floods) <= 2  # two if a minute began during the test
    assert full + sum(row["calls"] for row in floods) == 200
    assert sum(row["bytes"] for row in floods) == len(body) * (200 - full)
    for row in floods:
        assert (row["http_status"], row["token_valid"], row["kept"], row["headers"]) == (401, False, 0, "{}")
        assert row["body_sha256"] == hashlib.sha256(body).hexdigest()
    results = [answer["processing_result"] for _, answer in answers]
    assert (results.count("unauthorized"), results.count("flood")) == (full, 200 - full)
    check_books(await world.audit())


async def test_counted_call_has_retry_after_and_operators_see_the_count(world: World) -> None:
    address, client = "203.0.113.8", world.client()
    url = world.stack.addresses.public + PATH
    seen: list[str | None] = []
    for _ in range(3 * A_MINUTE):
        async with client._http.post(url, data=b"{}", headers={"X-Forwarded-For": address}) as answer:
            assert answer.status == 401
            seen.append(answer.headers.get("Retry-After"))
        if seen[-1] is not None:
            break
    assert seen[:A_MINUTE] == [None] * A_MINUTE
    assert int(seen[-1] or 0) >= 1
    operator = await world.operator()
    rows = (await operator.get("/internal/webhook-logs", processing_result="flood", limit=50))["items"]
    (row,) = [row for row in rows if row["source_ip"] == address]
    assert (row["calls"], row["bytes"], row["raw_body"]) == (1, 2, "")


async def test_calls_from_one_ipv6_48_block_share_ten_times_the_limit(world: World) -> None:
    calls = 10 * A_MINUTE + 100
    # Each from its own /64, all in one /48.
    _, took = await send(world, [({"n": n}, None, f"2001:db8:79:{n:x}::1") for n in range(calls)])

    async def stored() -> Any:
        (row,) = await world.stack.sql(
            """SELECT count(*) FILTER (WHERE processing_result = 'unauthorized') AS full, sum(calls) AS calls
               FROM webhook_logs WHERE source_ip LIKE '2001:db8:79:%'"""
        )
        return row

    row = await world.until(stored, lambda row: row["calls"] >= calls)
    assert 10 * A_MINUTE <= row["full"] <= 10 * (A_MINUTE + 1 + took)
    assert row["calls"] == calls


async def test_ipv6_64_network_shares_a_limit_and_another_network_has_its_own(world: World) -> None:
    for n in range(A_MINUTE + 20):
        await world.raw_webhook({"n": n}, token=None, address=f"2001:db8:77::{n:x}")
    _, floods = await rows_of(world.stack, "2001:db8:77::/64")
    assert floods
    status, answer = await world.raw_webhook({"n": 0}, token=None, address="2001:db8:78::1")
    assert (status, answer["processing_result"]) == (401, "unauthorized")


async def test_call_with_valid_token_is_never_limited(world: World) -> None:
    address = "203.0.113.9"
    for _ in range(A_MINUTE + 20):
        await world.raw_webhook({}, token="wrong", address=address)
    customer = await world.customer()
    payment = await world.request(customer)
    answers = [await world.raw_webhook(payment_call(payment), address=address) for _ in range(2 * A_MINUTE)]
    assert {status for status, _ in answers} == {200}


async def test_flood_waiting_for_the_log_uses_at_most_three_connections(world: World) -> None:
    async with world.stack.transaction() as holder:
        await holder.execute("LOCK TABLE webhook_logs IN ACCESS EXCLUSIVE MODE")
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(world.raw_webhook({}, token="wrong", address=f"203.0.113.{100 + n % 3}"))
                for n in range(250)
            ]
            seen = 0
            for _ in range(20):
                (row,) = await world.stack.sql(
                    "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO%webhook_logs%'"
                )
                seen = max(seen, row["n"])
                await asyncio.sleep(0.05)
            assert 1 <= seen <= 3  # two store calls in full, one counts
    assert {task.result()[0] for task in calls} == {401}


async def test_body_of_call_without_token_is_read_only_as_far_as_it_is_kept(world: World) -> None:
    host, port = world.stack.addresses.public.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.50\r\nContent-Length: 7000000\r\n\r\n"
    writer.write(head.encode() + b"x" * 80_000)
    await writer.drain()
    async with asyncio.timeout(20):  # the rest is never sent
        assert (await reader.readline()).split()[1] == b"401"
    writer.close()


async def test_logged_headers_are_limited_in_number_and_size(world: World) -> None:
    url = world.stack.addresses.public + PATH
    for address, headers in (
        ("203.0.113.60", {f"X-Filler-{n}": "1" for n in range(90)}),
        ("203.0.113.61", {f"X-Filler-{n}": "y" * 900 for n in range(40)}),
    ):
        async with world.client()._http.post(url, headers={"X-Forwarded-For": address, **headers}) as answer:
            assert answer.status == 401
        (row,) = await world.stack.sql("SELECT headers::text FROM webhook_logs WHERE source_ip = $1", address)
        assert len(json.loads(row["headers"])) <= 40
        assert len(row["headers"]) <= 10_000


async def test_each_configured_callback_token_is_accepted(world: World) -> None:
    stack, public, internal = world.stack, free_port(), free_port()
    stack.start(
        "api", key="api-two-tokens", PUBLIC_PORT=str(public), INTERNAL_PORT=str(internal),
        GATEWAY_CALLBACK_TOKEN="the-new-token,the-old-token",
    )  # fmt: skip
    try:
        stack.wait_ready("api", port=internal)
        for token, status in (("the-new-token", 404), ("the-old-token", 404), ("the-new-token,the-old-token", 401)):
            body = payment_call({"payment_request_id": new_id(), "amount": 1})
            async with world.client()._http.post(
                f"http://127.0.0.1:{public}{PATH}", json=body, headers={"X-Callback-Token": token}
            ) as answer:
                assert answer.status == status
    finally:
        assert stack.stop("api-two-tokens") == 0


async def test_sweep_marks_unfinished_calls_in_batches_and_skips_locked_rows(world: World) -> None:
    await world.stack.sql(
        """INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, raw_body)
           SELECT uuidv7(), now() - interval '1 hour', 'orphan', true, '' FROM generate_series(1, 1200)"""
    )
    left = "SELECT count(*) AS n FROM webhook_logs WHERE source_ip = 'orphan' AND http_status IS NULL"
    async with world.stack.transaction() as holder:
        await holder.execute(
            "SELECT 1 FROM webhook_logs WHERE id = (SELECT id FROM webhook_logs WHERE source_ip = 'orphan' LIMIT 1) FOR UPDATE"
        )
        world.stack.stop("jobs")
        world.stack.start("jobs")  # every sweep runs at the start

        async def unstamped() -> int:
            return (await world.stack.sql(left))[0]["n"]

        assert await world.until(unstamped, lambda n: n <= 1) == 1
    await world.stack.sql(
        "UPDATE webhook_logs SET http_status = 500, processing_result = 'error' WHERE http_status IS NULL"
    )
