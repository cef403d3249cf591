"""Carry out the faults of a schedule, and restart every process that has died, as a supervisor would."""

import asyncio
import collections
import contextlib
import os
import signal
import subprocess
import time

from tests.faults.chaos.lives import Notes
from tests.faults.chaos.schedule import Fault
from tests.faults.proxy import Mode
from tests.faults.service import Service
from tools.driving.service import Process
from tools.embedded.ownership import running

LOOK_S = 0.2
STOP_S = 15.0  # after SIGTERM a process exits with 0 within this time


class FaultInjector:
    """Carries out faults and restarts processes."""

    def __init__(self, service: Service, notes: Notes) -> None:
        self.service = service
        self.notes = notes
        self.counts: collections.Counter[str] = collections.Counter()
        self.database_died_at = 0.0
        self._servers = asyncio.Lock()
        self._busy: set[str] = set()  # processes that a fault is using, which the supervisor leaves alone
        self._ways: collections.Counter[tuple[str, str]] = collections.Counter()

    async def play(self, faults: list[Fault]) -> None:
        """Carry out each fault at its time; return when all are over."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                await asyncio.sleep(max(0.0, began + fault.at - time.monotonic()))
                group.create_task(self._one(fault))

    async def _one(self, fault: Fault) -> None:
        self.counts[fault.kind] += 1
        what, _, how = fault.kind.partition(" ")
        if what in ("kill", "term", "freeze"):
            await self._process(what, how, fault)
        elif what == "phones":
            await self._phones(how, fault)
        else:
            await self._server(what, how, fault)

    async def _phones(self, how: str, fault: Fault) -> None:
        """Disturb every second phone."""
        async with asyncio.TaskGroup() as group:
            for phone in self.notes.phones[fault.whom % 2 :: 2]:
                if how == "restart":
                    group.create_task(phone.restart())
                elif how == "hang":
                    group.create_task(phone.hang(fault.seconds))
                else:
                    group.create_task(phone.cut())

    # -- processes

    async def _process(self, what: str, kind: str, fault: Fault) -> None:
        nodes = self.service.of(kind)
        key = nodes[fault.whom % len(nodes)].key
        process = self.service.processes[key]
        if key in self._busy or process.poll() is not None:
            return
        self._busy.add(key)
        try:
            if what == "kill":
                process.kill()
            elif what == "freeze":
                self.service.freeze(key)
                await asyncio.sleep(fault.seconds)
                self.service.thaw(key)
            elif await asyncio.to_thread(self._is_ready, key):
                process.send_signal(signal.SIGTERM)
                code = await asyncio.to_thread(_ended, process)
                if code != 0:
                    self.notes.violation(f"{key} ended with {code} after SIGTERM")
            await asyncio.to_thread(process.wait) if what == "kill" else None
        finally:
            self._busy.discard(key)

    def _is_ready(self, key: str) -> bool:
        with contextlib.suppress(AssertionError):
            self.service.await_ready(key)
            return True
        return False

    async def supervise(self) -> None:
        """Restart processes that have ended, until cancelled.

        A process that finds no database ends, and is restarted.
        """
        while True:
            await asyncio.sleep(LOOK_S)
            for key, process in list(self.service.processes.items()):
                if key not in self._busy and process.poll() is not None:
                    self.service.begin(key)

    # -- servers and the proxies in front of them

    async def _server(self, server: str, how: str, fault: Fault) -> None:
        if how in ("killed", "stopped"):
            await self._die(server, signal.SIGKILL if how == "killed" else signal.SIGINT)
        elif how == "flushed":
            await self._flush()
        elif how == "connections reset":
            for node in self.service.nodes.values():
                await asyncio.to_thread(node.postgres.reset_all)
        else:
            nodes = list(self.service.nodes)
            keys = [nodes[fault.whom % len(nodes)]] if how.endswith("for one") else nodes
            mode = Mode.HANG if "hangs" in how else Mode.SWALLOW if how == "answers lost" else Mode.CUT
            await self._way(server, mode, keys, fault.seconds)

    async def _way(self, server: str, mode: Mode, keys: list[str], seconds: float) -> None:
        """Disturb the connections of processes to a server for `seconds`.

        If two faults overlap, the end of the later one ends both.
        """
        for key in keys:
            self._ways[key, server] += 1
        await self.service.network(server, mode, keys)
        await asyncio.sleep(seconds)
        for key in keys:
            self._ways[key, server] -= 1
        await self.service.network(server, Mode.PASS, [key for key in keys if not self._ways[key, server]])

    async def _die(self, server: str, how: signal.Signals) -> None:
        async with self._servers:
            servers = running(self.service.root)
            if servers is None:
                return
            os.kill(servers.postgres_pid if server == "postgres" else servers.valkey_pid, how)
            deadline = time.monotonic() + 30
            while not await asyncio.to_thread(self.service.servers.watch) and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            if server == "postgres":
                self.database_died_at = time.monotonic()

    async def _flush(self) -> None:
        host, port = self.service.redis_url.removeprefix("redis://").split("/")[0].split(":")
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(2):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"FLUSHALL\r\n")
                await writer.drain()
                writer.close()

    async def end_faults(self) -> None:
        """End every fault; return when all processes and both servers are available."""
        async with self._servers:
            await asyncio.to_thread(self.service.servers.watch)
        for server in ("postgres", "redis"):
            await self.service.network(server, Mode.PASS)
        for key, process in self.service.processes.items():
            if process.poll() is None:
                self.service.thaw(key)
        for key in self.service.nodes:
            await asyncio.to_thread(self.service.await_ready, key)


def _ended(process: Process) -> int | str:
    try:
        return process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return f"nothing in {STOP_S:.0f} s"
