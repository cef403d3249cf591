"""Webhook calls that the database could not store are written to the fallback file and imported by `sesi webhooks
import`.
"""

import asyncio
import base64
import contextlib
import gc
import json
import os
import pathlib
import tracemalloc
import uuid
from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import Any

import pytest

from core.providers.webhook_sink import WebhookSink
from core.settings.environment import read
from tests.clock import HandClock
from tests.stack import Stack, World, new_id, payment_call

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield a service with a fallback file; tests take its log table away for a while."""
    folder = tmp_path_factory.mktemp("fallback")
    made = Stack(
        WEBHOOK_FALLBACK_ENABLED="true",
        WEBHOOK_FALLBACK_DIR=str(folder / "not" / "there" / "yet"),
        WEBHOOK_FALLBACK_NAME="kept",
    )
    yield made
    made.close()


@contextlib.asynccontextmanager
async def without(stack: Stack, *tables: str) -> AsyncIterator[None]:
    """Rename tables away for a while."""
    for table in tables:
        await stack.sql(f"ALTER TABLE {table} RENAME TO {table}_away")
    try:
        yield
    finally:
        for table in tables:
            await stack.sql(f"ALTER TABLE {table}_away RENAME TO {table}")


def only_file(folder: pathlib.Path) -> pathlib.Path:
    """Return the only file of a folder."""
    (file,) = folder.iterdir()
    return file


def all_lines(stack: Stack) -> list[bytes]:
    """Return the lines of the fallback file, and of the second one that begins at midnight."""
    files = sorted(pathlib.Path(stack.env["WEBHOOK_FALLBACK_DIR"]).iterdir())
    return [line for file in files for line in file.read_bytes().splitlines()]


def lines_of(stack: Stack, *external_ids: str) -> list[bytes]:
    """Return the lines about some requests."""
    return [line for line in all_lines(stack) if line.strip() and json.loads(line)["external_id"] in external_ids]


def import_file(stack: Stack, path: pathlib.Path | str, *options: str, **env: str) -> tuple[int, str]:
    """Import a file; return the exit code and everything that was printed."""
    done = stack.command("webhooks", "import", str(path), *options, check=False, COLUMNS="200", **env)
    return done.returncode, done.stdout + done.stderr


async def results(stack: Stack, external_id: str) -> list[str]:
    """Return the processing results in the log about a request, oldest first."""
    rows = await stack.sql(
        "SELECT processing_result AS r FROM webhook_logs WHERE external_id = $1 ORDER BY received_at, id", external_id
    )
    return [row["r"] for row in rows]


async def state(stack: Stack, payment: dict[str, Any]) -> str:
    """Return a request's state."""
    (row,) = await stack.sql("SELECT status FROM payment_requests WHERE id = $1::uuid", payment["payment_request_id"])
    return row["status"]


async def test_import_of_a_processed_call_is_a_duplicate_once(
    world: World, stack: Stack, tmp_path: pathlib.Path
) -> None:
    payment = await world.request(await world.customer())
    external_id = payment["payment_request_id"]
    async with without(stack, "webhook_logs"):
        status, answer = await world.webhook(payment)
        assert (status, answer["processing_result"]) == (200, "confirmed")
    (line,) = lines_of(stack, external_id)
    assert json.loads(base64.b64decode(json.loads(line)["raw_body"]))["external_id"] == external_id
    path = tmp_path / "kept.jsonl"
    path.write_bytes(line + b"\n")
    code, text = import_file(stack, path)
    assert (code, "1 duplicate" in text, "All lines were imported." in text) == (0, True, True)
    assert await results(stack, external_id) == ["duplicate"]
    code, text = import_file(stack, path)
    assert (code, "1 already in the log" in text) == (0, True)
    assert await results(stack, external_id) == ["duplicate"]


async def test_import_of_unprocessed_calls_takes_effect_once(
    world: World, stack: Stack, tmp_path: pathlib.Path
) -> None:
    customers = [await world.customer() for _ in range(3)]
    paid, twice, gone = [await world.request(customer) for customer in customers]
    ids = [payment["payment_request_id"] for payment in (paid, twice, gone)]
    async with without(stack, "webhook_logs", "payment_requests"):
        for payment, more in ((paid, {}), (twice, {}), (twice, {}), (gone, {"status": "EXPIRED"})):
            assert (await world.webhook(payment, **more))[0] == 500  # the gateway may try again or give up
    lines = lines_of(stack, *ids)
    assert len(lines) == 4
    path = tmp_path / "kept.jsonl"
    path.write_bytes(b"\n\n".join(lines))  # an empty line is ignored, and the last line may have no newline
    assert [await state(stack, payment) for payment in (paid, twice, gone)] == ["pending"] * 3
    code, text = import_file(stack, path)
    assert code == 0, text
    for counted in ("2 confirmed", "1 duplicate", "1 expired"):
        assert counted in text
    assert [await results(stack, external_id) for external_id in ids] == [
        ["confirmed"], ["confirmed", "duplicate"], ["expired"],
    ]  # fmt: skip
    assert await state(stack, gone) == "expired"
    for customer, payment in ((customers[0], paid), (customers[1], twice)):  # and what follows from the payment
        found = await world.until(
            lambda c=customer, p=payment: c.get(f"/api/client/payment/requests/{p['payment_request_id']}"),
            lambda seen: seen["session_id"] is not None,
        )
        assert found["status"] in ("confirmed", "failed_pairing")
    code, text = import_file(stack, path)
    assert (code, "4 already in the log" in text) == (0, True)
    assert [len(await results(stack, external_id)) for external_id in ids] == [1, 2, 1]


async def test_import_names_bad_lines_by_number_and_imports_the_others(
    world: World, stack: Stack, tmp_path: pathlib.Path
) -> None:
    payment = await world.request(await world.customer())
    async with without(stack, "webhook_logs", "payment_requests"):
        await world.webhook(payment)
    (line,) = lines_of(stack, payment["payment_request_id"])
    fields = json.loads(line)
    wrong: list[Any] = [
        b"{not json", b"[]", b"7", b"{}", b"\xff\xfe", line[: len(line) // 2],
        {**fields, "id": "x"}, {**fields, "received_at": "yesterday"}, {**fields, "received_at": "2026-11-21T00:00:00"},
        {**fields, "received_at": "2026-01-21T00:00:00Z"}, {**fields, "id": str(uuid.uuid4())}, {**fields, "raw_body": "*"}, {**fields, "raw_body": 7},
        {**fields, "id": 7}, {**fields, "headers": "none"}, {**fields, "source_ip": 7}, {**fields, "token_valid": "yes"},
        {**fields, "replay_of": "x"}, {**fields, "external_id": []}, {**fields, "truncated": None},
    ]  # fmt: skip
    path = tmp_path / "kept.jsonl"
    path.write_bytes(
        b"\n".join([*(bad if isinstance(bad, bytes) else json.dumps(bad).encode() for bad in wrong), line])
    )
    code, text = import_file(stack, path)
    assert code == 1, text
    assert "Traceback" not in text
    for number in range(1, len(wrong) + 1):
        assert f"line {number}: " in text, (number, text)
    assert f"line {len(wrong) + 1}:" not in text
    assert "1 confirmed" in text
    assert f"{len(wrong)} lines were not imported" in text
    assert await results(stack, payment["payment_request_id"]) == ["confirmed"]


async def test_import_cuts_long_values_like_a_received_call(world: World, stack: Stack, tmp_path: pathlib.Path) -> None:
    payment = await world.request(await world.customer())
    async with without(stack, "webhook_logs", "payment_requests"):
        await world.webhook(payment)
    (line,) = lines_of(stack, payment["payment_request_id"])
    odd = {
        "amount": "x" * 300, "status": "nul \0 here", "source_ip": "1" * 60, "headers": {"a\0": "\0b"}, "newer": 1,
        "source": "poll",
    }  # fmt: skip
    path = tmp_path / "kept.jsonl"
    path.write_text(json.dumps({**json.loads(line), **odd}))
    code, text = import_file(stack, path, "--trust-unsealed")
    assert (code, "1 confirmed" in text) == (0, True), text
    mark = payment["payment_request_id"]
    (row,) = await stack.sql("SELECT source FROM webhook_logs WHERE external_id = $1", mark)
    assert row["source"] == "webhook"  # whatever the line says: polls write no line


async def test_import_of_a_call_with_a_wrong_token_has_no_effect(
    world: World, stack: Stack, tmp_path: pathlib.Path
) -> None:
    payment = await world.request(await world.customer())
    async with without(stack, "webhook_logs"):
        assert (await world.webhook(payment, token="wrong"))[0] == 401
    path = tmp_path / "kept.jsonl"
    path.write_bytes(b"".join(lines_of(stack, payment["payment_request_id"])))
    code, text = import_file(stack, path)
    assert (code, "line 1: 401 unauthorized" in text) == (1, True)
    assert await results(stack, payment["payment_request_id"]) == ["unauthorized"]
    assert await state(stack, payment) == "pending"


async def test_import_of_a_forged_line_moves_no_money(world: World, stack: Stack, tmp_path: pathlib.Path) -> None:
    payment, other = [await world.request(await world.customer()) for _ in range(2)]
    external_id = payment["payment_request_id"]
    async with without(stack, "webhook_logs", "payment_requests"):
        await world.webhook(other)
    (line,) = lines_of(stack, other["payment_request_id"])
    body = base64.b64encode(json.dumps(payment_call(payment)).encode()).decode()
    # with the seal of the other line
    forged = {**json.loads(line), "id": new_id(), "external_id": external_id, "raw_body": body}
    path = tmp_path / "kept.jsonl"
    path.write_text(json.dumps(forged, separators=(",", ":")))
    code, text = import_file(stack, path)
    assert (code, "line 1: 401 unauthorized" in text) == (1, True), text
    assert await results(stack, external_id) == ["unauthorized"]
    assert await state(stack, payment) == "pending"
    path.write_text(json.dumps({**forged, "id": new_id()}))
    code, text = import_file(stack, path, "--trust-unsealed")  # as for files from a version that did not seal lines
    assert (code, "1 confirmed" in text) == (0, True), text
    path.write_bytes(line)
    old = stack.env["JWT_SECRETS"]
    code, text = import_file(stack, path, JWT_SECRETS=f"new:{'n' * 32},{old}")  # the secret was rotated in between
    assert (code, "1 confirmed" in text) == (0, True), text


async def test_calls_without_a_token_do_not_fail_or_fill_the_file_without_the_log(world: World, stack: Stack) -> None:
    marks = [new_id() for _ in range(100)]
    async with without(stack, "webhook_logs"):
        await world.raw_webhook({})  # the file exists

    async def kept() -> tuple[int, int]:
        """Return how many calls are in the file, and how many are stored or counted in the log."""
        (row,) = await stack.sql(
            "SELECT coalesce(sum(calls), 0) AS n FROM webhook_logs WHERE source_ip LIKE '198.51.100.%'"
        )
        return len(all_lines(stack)), row["n"]

    began, (lines, counted) = monotonic(), await kept()
    async with without(stack, "webhook_logs"):
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(world.raw_webhook({"mark": mark}, token="wrong", address=f"198.51.100.{n}"))
                for n, mark in enumerate(marks)
            ]
        assert {call.result()[0] for call in calls} == {401}

    # A row that came later than its line is deleted again.
    in_file, _ = await world.until(kept, lambda found: sum(found) == lines + counted + len(marks))
    assert 0 < in_file - lines <= 60 + monotonic() - began + 1  # the bucket gains one token a second while this runs


async def test_call_that_failed_in_an_import_is_processed_by_the_next_import(
    world: World, stack: Stack, tmp_path: pathlib.Path
) -> None:
    payment = await world.request(await world.customer())
    async with without(stack, "webhook_logs"):
        await world.webhook(payment, status="PENDING")
    path = tmp_path / "kept.jsonl"
    path.write_bytes(b"".join(lines_of(stack, payment["payment_request_id"])))
    async with without(stack, "webhook_logs"):
        code, text = import_file(stack, path)
    assert code == 1, text
    assert "Traceback" not in text
    code, text = import_file(stack, path)
    assert (code, "1 ignored_status" in text) == (0, True)


@pytest.mark.slow
async def test_call_imported_into_a_busy_database_is_processed_by_the_next_import(
    world: World, stack: Stack, tmp_path: pathlib.Path
) -> None:
    payment = await world.request(await world.customer())
    external_id = payment["payment_request_id"]
    async with without(stack, "webhook_logs", "payment_requests"):
        await world.webhook(payment)
    path = tmp_path / "kept.jsonl"
    path.write_bytes(b"".join(lines_of(stack, external_id)))
    for _ in range(2):
        async with without(stack, "payment_requests"):
            code, text = await asyncio.to_thread(import_file, stack, path)
        assert (code, "line 1: 500 error" in text) == (1, True), text
        assert await results(stack, external_id) == [None]  # nothing could be masked: the sweep would do it
    code, text = import_file(stack, path)
    assert (code, "1 confirmed" in text) == (0, True), text
    assert await results(stack, external_id) == ["confirmed"]
    code, text = import_file(stack, path)
    assert (code, "1 already in the log" in text) == (0, True), text


def test_import_of_a_missing_file_reports_it(stack: Stack, tmp_path: pathlib.Path) -> None:
    for path in (tmp_path / "nothing.jsonl", tmp_path):
        code, text = import_file(stack, path)
        assert (code, "file not found" in text) == (1, True)
        assert "Traceback" not in text
    assert stack.command("webhooks", "import", check=False).returncode == 2
    assert stack.command("webhooks", check=False).returncode == 2


def test_import_of_an_empty_file_imports_nothing(stack: Stack, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"\n \n")
    code, text = import_file(stack, path)
    assert (code, "All lines were imported." in text) == (0, True)


async def test_truncated_line_does_not_damage_other_lines(tmp_path: pathlib.Path) -> None:
    settings = read({"WEBHOOK_FALLBACK_ENABLED": "true", "WEBHOOK_FALLBACK_DIR": str(tmp_path)})
    sink, at = WebhookSink(settings), HandClock.at(2026, 11, 21).now()
    assert await sink.write(received_at=at, raw_body=b"one", fields={})
    file = only_file(tmp_path)
    assert file.name == "gateway-webhook-fallback-2026-11-21.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(file.read_bytes() + b'{"received_at": "cut by a full di')
    assert await sink.write(received_at=at, raw_body=b"two", fields={})
    assert await sink.write(received_at=at, raw_body=b"three", fields={})
    lines = file.read_bytes().splitlines()
    assert len(lines) == 4
    bodies = [base64.b64decode(json.loads(lines[n])["raw_body"]) for n in (0, 2, 3)]
    assert bodies == [b"one", b"two", b"three"]


async def test_fallback_file_that_is_off_or_full_is_reported(tmp_path: pathlib.Path) -> None:
    at = HandClock.at(2026, 11, 21).now()
    assert not await WebhookSink(read({})).write(received_at=at, raw_body=b"x", fields={})
    (tmp_path / "taken").write_text("a file")
    settings = read({"WEBHOOK_FALLBACK_ENABLED": "true", "WEBHOOK_FALLBACK_DIR": str(tmp_path / "taken")})
    assert not await WebhookSink(settings).write(received_at=at, raw_body=b"x", fields={})


@contextlib.contextmanager
def hanging_disk(folder: pathlib.Path) -> Iterator[WebhookSink]:
    """Yield a sink whose file of 2026-11-21 blocks until the end, like a disk that hangs: it is a full pipe."""
    pipe = folder / "gateway-webhook-fallback-2026-11-21.jsonl"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(reader, bytes(4096))
    try:
        yield WebhookSink(read({"WEBHOOK_FALLBACK_ENABLED": "true", "WEBHOOK_FALLBACK_DIR": str(folder)}))
    finally:
        os.read(reader, 1 << 20)  # the write that blocks in the thread can finish
        os.close(reader)


async def test_hanging_disk_does_not_delay_the_webhook_reply(tmp_path: pathlib.Path) -> None:
    with hanging_disk(tmp_path) as sink:
        async with asyncio.timeout(5):
            kept = await sink.write(received_at=HandClock.at(2026, 11, 21).now(), raw_body=b"x", fields={})
        assert not kept


async def test_hanging_disk_keeps_no_lines_in_memory(tmp_path: pathlib.Path) -> None:
    clock = HandClock.at(2026, 11, 21)
    with hanging_disk(tmp_path) as sink:
        tracemalloc.start()
        try:
            writes = [sink.write(received_at=clock.now(), raw_body=bytes(32_768), fields={}) for _ in range(100)]
            async with asyncio.timeout(30):
                assert not any(await asyncio.gather(*writes))
            del writes
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] < 1 << 20  # only the line that the disk has
        finally:
            tracemalloc.stop()
    clock.advance(86_400)
    async with asyncio.timeout(30):
        while not await sink.write(received_at=clock.now(), raw_body=b"x", fields={}):
            pass
