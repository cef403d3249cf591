"""Bodies that are meant to cost the service more than their sender."""

import asyncio
import json
import os
import pathlib
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from tests.access.wire import Answer, ask
from tests.stack import Stack, World

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PAYMENTS = "/api/client/payment/requests"
LONG = json.dumps({"mode": "chat", "topics": [1] * 30_000}, separators=(",", ":")).encode()
HOSTILE = {
    "long list": LONG,
    "list of lists": b'{"mode":"chat","topics":[' + b"[]," * 20_000 + b"[]]}",
    "unknown fields": json.dumps({f"f{n}": 1 for n in range(6_000)}, separators=(",", ":")).encode(),
    "deep objects": b'{"topics":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}",
    "long name": json.dumps({"x" * 60_000: 1}).encode(),
    "long text": json.dumps({"mode": "x" * 60_000}).encode(),
}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, in seconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def cost_of(pid: int, work: Callable[[], Awaitable[object]]) -> float:
    """Return the CPU time, in seconds, that a process uses while `work` runs."""
    before = cpu_seconds(pid)
    await work()
    return cpu_seconds(pid) - before


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_body_is_422_with_an_answer_under_8_kib(
    stack: Stack, world: World, http: aiohttp.ClientSession, name: str
) -> None:
    customer = await world.customer()
    answer = await ask(
        http, stack.addresses.public + PAYMENTS, "POST",
        token=customer.access_token, data=HOSTILE[name], headers={"Content-Type": "application/json"},
    )  # fmt: skip
    assert answer.said == (422, "VALIDATION_ERROR")
    assert len(answer.raw) <= 8_192
    assert len(answer.body["error"]["details"]["fields"]) <= 20


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="CPU time is read from /proc")
async def test_two_clients_with_long_lists_delay_neither_health_nor_webhook(
    stack: Stack, world: World, http: aiohttp.ClientSession
) -> None:
    hostile = [await world.customer(), await world.customer()]
    payer = await world.customer()
    payment = await world.request(payer)
    pid, url = stack.processes["api"].pid, stack.addresses.public

    async def send(data: bytes, times: int) -> list[Answer]:
        async def one(token: str | None) -> list[Answer]:
            headers = {"Content-Type": "application/json"}
            return [
                await ask(http, url + PAYMENTS, "POST", token=token, data=data, headers=headers) for _ in range(times)
            ]

        both = await asyncio.gather(*(one(client.access_token) for client in hostile))
        return [answer for answers in both for answer in answers]

    plain = await cost_of(pid, lambda: send(b'{"mode":"video","duration_minutes":0}', 40))
    answered = 0

    async def flood() -> None:
        nonlocal answered
        flooding, paying = asyncio.create_task(send(LONG, 40)), asyncio.create_task(world.webhook(payment))
        while not flooding.done():  # the webhook also waits for the database, and may end later
            assert (await ask(http, url + "/healthz")).status == 200
            answered += 1
        assert (await paying)[0] == 200
        assert {answer.said for answer in flooding.result()} == {(422, "VALIDATION_ERROR")}

    hostile_cost = await cost_of(pid, flood)
    health = await cost_of(pid, lambda: asyncio.gather(*(ask(http, url + "/healthz") for _ in range(answered))))
    assert answered >= 10
    # Reading 60 KB takes longer than reading 40 bytes. If each element were decoded, it would take a hundred times as
    # long.
    assert hostile_cost - health < 10 * max(plain, 0.1), (plain, hostile_cost, health)
