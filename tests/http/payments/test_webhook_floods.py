"""Webhook calls without a valid token: what is stored of them is bounded over all addresses, and none delays a genuine
call (docs/security.md#limits)."""

import asyncio
import contextlib
import datetime as dt
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

from core.base.shares import network_of
from tests.stack import Stack, World, new_id, payment_call
from tests.verdicts import check_books
from tools.driving.throwaway import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PATH = "/api/shared/payment/webhooks/gateway"
CALLS, LARGE, KEPT, WHOLE = 600, 60, 4_096, 65_536
STORED = 32 * 1024 * 1024
Send = Callable[[str], Awaitable[str]]
AT_ONCE = 20  # of the calls, four are stored at the same time; one that waits for 0.8 s is only counted
USED = """INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, raw_body, http_status, processing_result)
  SELECT uuidv7(-$1::interval), now() - $1::interval, format($2, n / 250, n % 250), false, $3, 401, 'unauthorized'
  FROM generate_series(1, $4::int) AS n"""
UNFINISHED = """INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, raw_body, http_status, processing_result)
  SELECT uuidv7(), now() - interval '20 s', format('10.%s.%s.1', n / 250, n % 250), false, '{}', $1, $2
  FROM generate_series(1, $3::int) AS n"""
OLDER = """UPDATE webhook_logs SET received_at = received_at - interval '2 hours',
    http_status = coalesce(http_status, 500), processing_result = coalesce(processing_result, 'error')
  WHERE NOT token_valid AND processing_result IS DISTINCT FROM 'flood'"""
ROWS = """SELECT source_ip, processing_result, http_status, token_valid, calls, bytes, body_sha256, truncated,
  octet_length(raw_body) AS kept, headers::text FROM webhook_logs
  WHERE source_ip = $1::text OR processing_result = 'flood' AND source_ip = $2::text ORDER BY id"""
SIZE = """SELECT sum(pg_total_relation_size(oid))::bigint AS size FROM pg_class
  WHERE relname LIKE 'webhook_logs%' AND relkind = 'r'"""


@pytest.fixture(autouse=True)
async def unused_budgets(world: World) -> None:
    """Make the earlier calls of this file older than the budgets reach."""

    async def stored() -> bool:
        await world.stack.sql(OLDER)
        answers = [await world.raw_webhook({}, token=None, address="192.0.2.1") for _ in range(2)]
        return all(answer["processing_result"] == "unauthorized" for _, answer in answers)

    await world.until(stored, bool)  # a process remembers a refusal for a second
    await world.stack.sql(OLDER)


async def use(world: World, calls: int, *, of: str = "10.%s.%s.1", body: bytes = b"{}", age_s: int = 1) -> None:
    """Insert stored calls without a valid token, by default each from another network."""
    await world.stack.sql(USED, dt.timedelta(seconds=age_s), of, body, calls)


async def rows_of(stack: Stack, address: str) -> list[Any]:
    """Return the rows of an address, and those that count calls of its network."""
    return await stack.sql(ROWS, address, network_of(address).name)


@contextlib.contextmanager
def another_process(world: World, **env: Any) -> Iterator[Send]:
    """Run another api process; yield what sends it a call without a token and returns the result."""
    stack, public, internal = world.stack, free_port(), free_port()
    stack.start("api", key="api-other", PUBLIC_PORT=str(public), INTERNAL_PORT=str(internal), **env)

    async def result(address: str) -> str:
        url, headers = f"http://127.0.0.1:{public}{PATH}", {"X-Forwarded-For": address}
        async with world.client()._http.post(url, json={}, headers=headers) as answer:
            return (await answer.json())["processing_result"]

    try:
        stack.wait_ready("api", port=internal)
        yield result
    finally:
        assert stack.stop("api-other") == 0


async def send(world: World, calls: Sequence[tuple[Any, str | None, str]]) -> tuple[list[tuple[int, Any]], float]:
    """Send calls, each a body, a token and an address; return their answers, and how many seconds all took."""
    tasks = []
    began = time.monotonic()
    for start in range(0, len(calls), AT_ONCE):
        async with asyncio.TaskGroup() as group:
            for body, token, address in calls[start : start + AT_ONCE]:
                tasks.append(group.create_task(world.raw_webhook(body, token=token, address=address)))
    return [task.result() for task in tasks], time.monotonic() - began


async def test_calls_of_all_addresses_above_600_a_minute_are_counted_only(world: World) -> None:
    await use(world, CALLS - 5)
    body = json.dumps({"filler": "x" * 1000}).encode()
    calls = [(body, "wrong", f"11.0.{n}.1") for n in range(20)]
    answers, _ = await send(world, calls)
    assert {status for status, _ in answers} == {401}

    async def stored() -> list[Any]:
        return [row for _, _, address in calls for row in await rows_of(world.stack, address)]

    rows = await world.until(stored, lambda rows: sum(row["calls"] for row in rows) >= 20)
    floods = [row for row in rows if row["processing_result"] == "flood"]
    stored_rows = sum(row["processing_result"] == "unauthorized" for row in rows)
    assert 5 <= stored_rows <= 8  # four connections look at the same time, and a slow look may miss what others store
    assert stored_rows + sum(row["calls"] for row in floods) == 20
    for row in floods:
        assert (row["http_status"], row["token_valid"], row["kept"], row["headers"]) == (401, False, 0, "{}")
        assert (row["bytes"], row["body_sha256"]) == (len(body), hashlib.sha256(body).hexdigest())
    customer = await world.customer()
    payment = await world.request(customer)
    assert (await world.webhook(payment))[0] == 200  # a genuine call is never refused
    check_books(await world.audit())


async def test_counted_call_has_retry_after_and_operators_see_the_count(world: World) -> None:
    await use(world, CALLS)
    address, client = "203.0.113.8", world.client()
    url = world.stack.addresses.public + PATH
    for _ in range(3):
        async with client._http.post(url, data=b"{}", headers={"X-Forwarded-For": address}) as answer:
            assert answer.status == 401
            assert 1 <= int(answer.headers["Retry-After"]) <= 60
    operator = await world.operator()
    rows = (await operator.get("/internal/webhook-logs", processing_result="flood", limit=50))["items"]
    mine = [row for row in rows if row["source_ip"] == "203.0.113.0/24"]
    assert (sum(row["calls"] for row in mine), sum(row["bytes"] for row in mine), mine[0]["raw_body"]) == (3, 6, "")


@pytest.mark.parametrize(
    ("own", "address", "part"),
    [
        ("203.0.114.%2$s", "203.0.114.251", 10),
        ("2001:db8:79:%s%s::1", "2001:db8:79:ffff::1", 20),
        ("peer-%s-%s", "peer", 20),
    ],
)
async def test_share_of_a_network_binds_while_more_than_half_of_a_budget_is_used(
    world: World, own: str, address: str, part: int
) -> None:
    async def stored(of: str, times: int = 1) -> list[bool]:
        answers = [await world.raw_webhook({}, token=None, address=of) for _ in range(times)]
        return [answer["processing_result"] == "unauthorized" for _, answer in answers]

    share = CALLS // part
    await use(world, share, of=own)
    await use(world, CALLS // 2 - share - 1)
    assert await stored(address, 3) == [True, True, False]  # 299 and 300 are no more than half
    assert await stored("203.0.112.1") == [True]
    await world.until(lambda: stored("::ffff:203.0.112.2"), lambda seen: seen == [True])
    assert await stored(address) == [False]


async def test_gateway_source_networks_are_exempt_from_shares_and_not_from_the_budget(world: World) -> None:
    with another_process(world, GATEWAY_SOURCE_NETWORKS="198.51.100.0/25") as result:
        await use(world, 200, of="198.51.100.%2$s")
        await use(world, 200)
        # The refused neighbour's network is remembered for a second.
        assert (await result("198.51.100.200"), await result("198.51.100.9")) == ("flood", "unauthorized")
        await use(world, 200)
        assert await result("198.51.100.9") == "flood"


async def test_rows_of_counted_calls_are_bounded_over_all_networks(world: World) -> None:
    """Each /64 of a /48 and each address of a /24 is in one row, and 200 networks have a row each."""
    floods = (
        "SELECT source_ip, received_at, calls FROM webhook_logs WHERE processing_result = 'flood' AND received_at > $1"
    )
    began = (await world.stack.sql("SELECT now() AS at"))[0]["at"]
    with another_process(world) as result:
        await use(world, CALLS)
        together = [f"2001:db8:90:{n:x}::1" for n in range(15)] + [f"198.18.0.{n}" for n in range(15)]
        apart = [f"2001:db8:{n:x}::1" for n in range(0x100, 0x180)] + [f"198.18.{n}.1" for n in range(1, 129)]
        calls = [*together, *apart, *apart[-30:]]
        for start in range(0, len(calls), AT_ONCE):
            results = await asyncio.gather(*(result(address) for address in calls[start : start + AT_ONCE]))
            assert set(results) == {"flood"}
        rows = await world.until(
            lambda: world.stack.sql(floods, began), lambda rows: sum(row["calls"] for row in rows) >= len(calls)
        )
    minutes = Counter(row["received_at"].replace(second=0, microsecond=0) for row in rows)
    assert max(minutes.values()) <= 201
    named = {row["source_ip"] for row in rows}
    assert {"2001:db8:90::/48", "198.18.0.0/24"} < named
    if len(minutes) == 1:
        assert (len(named), "" in named) == (201, True)


async def test_calls_that_never_got_a_result_count_in_the_budgets(world: World) -> None:
    await world.stack.sql(UNFINISHED, None, None, CALLS // 2)
    await world.stack.sql(UNFINISHED, 500, "error", CALLS // 2)
    try:
        assert (await world.raw_webhook({}, token=None, address="203.0.111.1"))[1]["processing_result"] == "flood"
    finally:
        await world.stack.sql("DELETE FROM webhook_logs WHERE NOT token_valid AND coalesce(http_status, 500) = 500")


@pytest.mark.slow
async def test_flood_of_large_bodies_from_one_block_grows_the_table_by_less_than_two_megabytes(world: World) -> None:
    """700 calls of 64 KiB, each from its own /64: half of the budgets, and then the share of the /48."""
    body, calls = os.urandom(WHOLE), 700
    before = (await world.stack.sql(SIZE))[0]["size"]
    await send(world, [(body, None, f"2001:db8:77:{n:x}::1") for n in range(calls)])

    async def seen() -> Any:
        (row,) = await world.stack.sql(
            """SELECT count(*) FILTER (WHERE processing_result = 'unauthorized') AS stored, sum(calls) AS calls,
                 count(*) FILTER (WHERE octet_length(raw_body) = 65536) AS whole,
                 max(octet_length(raw_body)) FILTER (WHERE octet_length(raw_body) < 65536) AS cut
               FROM webhook_logs WHERE source_ip LIKE '2001:db8:77:%'"""
        )
        return row

    row = await world.until(seen, lambda row: row["calls"] >= calls)
    assert CALLS // 2 <= row["stored"] <= CALLS // 2 + 5
    assert (row["whole"], row["cut"]) == (LARGE // 2 + 1, KEPT)
    grown = (await world.stack.sql(SIZE))[0]["size"] - before
    # Whole bodies replace their first 4 KiB, which stay until the next vacuum.
    assert grown < row["whole"] * (WHOLE * 1.1 + KEPT) + 2_000_000
    other = "2001:db8:78::1"
    assert (await world.raw_webhook(body, token=None, address=other))[1]["processing_result"] == "unauthorized"
    assert [row["kept"] for row in await rows_of(world.stack, other)] == [WHOLE]


@pytest.mark.parametrize("by", ["bodies of the minute", "bytes of the hour"])
async def test_large_body_is_cut_when_a_budget_is_used_up(world: World, by: str) -> None:
    if by == "bodies of the minute":
        await use(world, LARGE, body=b"x" * (KEPT + 1))
    else:
        await use(world, STORED // WHOLE, body=b"x" * WHOLE, age_s=3_500)
    small, large, address = b"y" * KEPT, b"z" * (KEPT + 1), f"203.0.{len(by)}.1"
    for body in (small, large):
        await world.raw_webhook(body, token="wrong", address=address)
    first, second = await rows_of(world.stack, address)
    assert (first["kept"], first["truncated"], first["bytes"], first["body_sha256"]) == (KEPT, False, None, None)
    digest = hashlib.sha256(large).hexdigest()
    assert (second["kept"], second["truncated"], second["bytes"], second["body_sha256"]) == (
        KEPT,
        True,
        KEPT + 1,
        digest,
    )
    await world.stack.sql(
        "UPDATE webhook_logs SET received_at = received_at - interval '101 s' WHERE processing_result = 'unauthorized'"
    )
    await world.raw_webhook(large, token="wrong", address=address)
    third = (await rows_of(world.stack, address))[-1]
    assert (third["kept"], third["truncated"], third["bytes"], third["body_sha256"]) == (KEPT + 1, False, None, None)
    assert (await world.audit())["violations"] == []


async def test_row_is_written_before_the_token_is_compared(world: World) -> None:
    """The first version of each row knows neither the token nor a result, and has no more than 4 KiB of the body."""
    await world.stack.sql("CREATE TABLE first_rows AS SELECT * FROM webhook_logs LIMIT 0")
    await world.stack.sql(
        """CREATE FUNCTION keep_first() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS
           $$ BEGIN INSERT INTO first_rows SELECT new.*; RETURN NULL; END $$"""
    )
    await world.stack.sql(
        "CREATE TRIGGER keep_first AFTER INSERT ON webhook_logs FOR EACH ROW EXECUTE FUNCTION keep_first()"
    )
    try:
        payment = await world.request(await world.customer())
        large = {**payment_call(payment), "filler": "x" * 20_000}
        answers = [await world.raw_webhook(large, token="wrong"), await world.raw_webhook(large)]
        assert [status for status, _ in answers] == [401, 200]
        first = await world.stack.sql(
            "SELECT http_status, processing_result, token_valid, octet_length(raw_body) AS kept FROM first_rows ORDER BY id"
        )
        assert [tuple(row) for row in first] == [(None, None, False, KEPT)] * 2
    finally:
        await world.stack.sql("DROP TRIGGER keep_first ON webhook_logs")
        await world.stack.sql("DROP FUNCTION keep_first")
        await world.stack.sql("DROP TABLE first_rows")
    rows = await world.stack.sql(
        """SELECT token_valid, processing_result, truncated, bytes, body_sha256, convert_from(raw_body, 'UTF8') AS body
           FROM webhook_logs WHERE external_id = $1 ORDER BY id""",
        payment["payment_request_id"],
    )
    assert [tuple(row)[:5] for row in rows] == [
        (False, "unauthorized", False, None, None), (True, "confirmed", False, None, None),
    ]  # fmt: skip
    assert [json.loads(row["body"]) for row in rows] == [large] * 2


async def test_call_with_valid_token_is_never_limited(world: World) -> None:
    await use(world, CALLS)
    address = "203.0.113.9"
    assert (await world.raw_webhook({}, token="wrong", address=address))[1]["processing_result"] == "flood"
    payment = await world.request(await world.customer())
    answers = [await world.raw_webhook(payment_call(payment), address=address) for _ in range(40)]
    assert {status for status, _ in answers} == {200}


async def test_flood_waiting_for_the_log_uses_at_most_five_connections(world: World) -> None:
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
                    "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%webhook_logs%'"
                )
                seen = max(seen, row["n"])
                await asyncio.sleep(0.05)
            assert 1 <= seen <= 5  # four look or store, one counts
    assert {task.result()[0] for task in calls} == {401}


async def test_call_whose_row_takes_seconds_is_stored_and_further_ones_do_not_wait(world: World) -> None:
    """The time of the row itself does not matter, and no more calls wait for it than there are connections."""
    slow, further = [f"203.0.{n}.9" for n in range(4)], [f"198.51.{n}.9" for n in range(20)]

    async def result(address: str) -> tuple[int, str]:
        status, answer = await world.raw_webhook({}, token=None, address=address)
        return status, answer["processing_result"]

    async def traces(addresses: list[str]) -> list[list[tuple[str, int]]]:
        found = [await rows_of(world.stack, address) for address in addresses]
        return [[(row["processing_result"], row["calls"]) for row in rows] for rows in found]

    waiting = (
        "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%webhook_logs%'"
    )
    async with world.stack.transaction() as holder:
        await holder.execute("LOCK TABLE webhook_logs IN SHARE MODE")
        calls = [asyncio.create_task(result(address)) for address in slow]
        await world.until(lambda: world.stack.sql(waiting), lambda rows: rows[0][0] == len(slow))
        answers = await asyncio.gather(*(result(address) for address in further))
        assert {status for status, _ in answers} == {401}
        assert not any(call.done() for call in calls)
    assert await asyncio.gather(*calls) == [(401, "unauthorized")] * len(slow)
    assert await traces(slow) == [[("unauthorized", 1)]] * len(slow)
    found = await world.until(lambda: traces(further), all)
    assert [sum(calls for _, calls in each) for each in found] == [1] * len(further)


async def test_body_of_call_without_token_is_read_only_as_far_as_it_is_kept(world: World) -> None:
    host, port = world.stack.addresses.public.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.109.50\r\nContent-Length: 7000000\r\n\r\n"
    writer.write(head.encode() + b"x" * 80_000)
    await writer.drain()
    async with asyncio.timeout(20):  # the rest is never sent
        assert (await reader.readline()).split()[1] == b"401"
    writer.close()
    (row,) = await rows_of(world.stack, "203.0.109.50")
    kept = (row["truncated"], row["kept"], row["bytes"], row["body_sha256"])
    assert kept == (True, WHOLE, 7_000_000, hashlib.sha256(b"x" * (WHOLE + 1)).hexdigest())


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


async def test_call_that_is_stored_too_late_leaves_no_row_without_a_result(world: World) -> None:
    """Its row would be closed as an error after a minute, although the call was answered."""
    customer = await world.customer()
    payment = await world.request(customer)
    async with world.stack.transaction() as holder:
        await holder.execute("LOCK TABLE webhook_logs IN SHARE MODE")
        status, answer = await world.webhook(payment)
        refused_status, _ = await world.webhook(payment, token="wrong")
    assert (status, answer["processing_result"], refused_status) == (200, "confirmed", 401)
    left = "SELECT count(*)::int FROM webhook_logs WHERE external_id = $1 AND http_status IS NULL"
    ours = "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    await world.until(lambda: world.stack.sql(ours), lambda rows: rows[0][0] == 0)
    await world.until(lambda: world.stack.sql(left, payment["payment_request_id"]), lambda rows: rows[0][0] == 0)
