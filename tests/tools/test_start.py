"""The processes of a service as anybody starts them: each by its command, in an interpreter of its own."""

import asyncio
import json
import os
import pathlib
import signal
import time

import pytest

from tests.stack import Stack
from tools.embedded import command_of
from tools.service import PROCESSES, Service
from tools.throwaway import Throwaway

DEADLINE_S = 30.0


@pytest.mark.parametrize("name", PROCESSES)
def test_each_process_starts_by_its_command_and_ends_orderly(name: str) -> None:
    service = Service(durable=False, template=Stack.template, prefix="sesi-test-")
    try:
        service.start(name)
        assert service.stop(name) == 0, service.log(name)
    finally:
        service.close()


def children(demo: Throwaway) -> dict[str, int]:
    """The processes of the running `sesi up`, and itself."""
    return json.loads((pathlib.Path(demo.env["SESI_DATA_DIR"]) / "up.json").read_text())


def gone(pids: dict[str, int]) -> None:
    """Wait until none of these processes is left."""
    deadline = time.monotonic() + DEADLINE_S
    while left := {name: pid for name, pid in pids.items() if command_of(pid) is not None}:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_a_service_whose_up_was_killed_comes_up_again_and_ends_with_its_terminal() -> None:
    async def play() -> None:
        demo = Throwaway(60)
        try:
            await demo.start()
            first = children(demo)
            os.kill(first["up"], signal.SIGKILL)
            assert demo._process is not None
            await demo._process.wait()
            left = {name: first[name] for name in PROCESSES}
            assert all(command_of(pid) for pid in left.values())  # they hold the ports
            await demo.start()
            gone(left)
            second = children(demo)
            os.kill(second["up"], signal.SIGHUP)
            assert await demo._process.wait() == 0
            gone(second)
        finally:
            await demo.stop()

    asyncio.run(play())
