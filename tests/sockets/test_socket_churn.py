"""Hundreds of sockets that open and close leave nothing behind and delay no other client."""

import asyncio
import os
import pathlib
import re
import urllib.request

import pytest

from tests.faults.people import phones
from tests.scrape import scrape
from tests.sockets.plain_socket import bare_and_known
from tests.stack import Stack, World
from tools.driving.device import Device

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

USERS, TIMES = 40, 15  # each user's budget allows six sign-ins a second
ROOM_KB = 40_000  # of memory for the work itself
SPARE = 3  # files that may open and close in the meantime
GAUGE = re.compile(r'^sesi_sockets\{path="chat"\} (\d+)', re.MULTILINE)
BACKENDS = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'sesi'"


def files(stack: Stack) -> int:
    """Return how many files the realtime process has open, apart from its pools: a connection stays for a minute."""
    pooled = scrape(stack.ports["REALTIME"])["sesi_database_pool_connections"].values()
    return len(os.listdir(f"/proc/{stack.processes['realtime'].pid}/fd")) - round(sum(pooled))


def memory_kb(stack: Stack) -> int:
    """Return the memory of the realtime process, in KB."""
    text = pathlib.Path(f"/proc/{stack.processes['realtime'].pid}/status").read_text()
    return int(re.findall(r"^VmRSS:\s+(\d+)", text, re.MULTILINE)[0])


def sockets(stack: Stack) -> int:
    """Return how many sockets the process counts."""
    url = f"http://127.0.0.1:{stack.ports['REALTIME']}/metrics"
    with urllib.request.urlopen(url, timeout=20) as answer:
        return int(GAUGE.findall(answer.read().decode())[0])


async def open_and_close_sockets(customer: Device) -> None:
    """Authenticate new sockets repeatedly; every second time the client disappears without a close frame."""
    for n in range(TIMES):
        socket, _ = await bare_and_known(customer)
        if n % 2:
            await socket.ws.close()
        else:
            connection = socket.ws._response.connection
            assert connection is not None
            assert connection.transport is not None
            connection.transport.abort()
        await asyncio.sleep(0.15)


@pytest.mark.skipif(not pathlib.Path("/proc/self/fd").exists(), reason="counts files as Linux shows them")
async def test_hundreds_of_socket_sign_ins_leak_no_files_or_memory(world: World) -> None:
    stack = world.stack
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    comers = [await world.customer(f"C{n}") for n in range(USERS)]
    async with phones(customer) as (phone,):
        await phone.say(session_id, "before")
        await open_and_close_sockets(comers[0])  # everything that is created only once exists now
        before = (files(stack), memory_kb(stack), sockets(stack), (await stack.sql(BACKENDS))[0]["n"])
        async with asyncio.TaskGroup() as group:
            going = [group.create_task(open_and_close_sockets(comer)) for comer in comers]
            said = 0
            while not all(task.done() for task in going):
                said += 1
                await phone.say(session_id, f"during {said}")
                await asyncio.sleep(0.3)
        assert said > 3

        async def left() -> tuple[int, int]:
            return sockets(stack) - before[2], files(stack) - before[0]

        await world.until(left, lambda more: more[0] <= 0 and more[1] <= SPARE)
        assert memory_kb(stack) - before[1] < ROOM_KB
        assert (await stack.sql(BACKENDS))[0]["n"] <= before[3] + 8
        await phone.say(session_id, "after")
