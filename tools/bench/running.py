"""A durable service for benchmarks, with raised limits, because the whole load comes from one address."""

import asyncio
import os
import pathlib
from collections.abc import Callable

import asyncpg

from tools.driving.service import OURS, Service, SourceTree
from tools.driving.throwaway import free_port

CALLBACK_TOKEN = "the-callback-token-of-the-bench"
SETTLE_S = 30.0
WAL_FILES = 128  # of 16 MB each


class BenchFailed(Exception):
    """The load did not run as expected; the message says what happened."""


def start_service(
    *, apis: int = 1, hubs: int = 1, template: pathlib.Path | None = None, code: SourceTree = OURS, **env: str
) -> Service:
    """Start a service with `apis` API processes and `hubs` realtime processes.

    `template`: a stopped database to start with, such as one filled by `sesi grow`. `code`: the source tree to run.
    `env`: additional settings.
    """
    settings = {
        "GATEWAY_CALLBACK_TOKEN": CALLBACK_TOKEN,
        "WS_FRAMES_PER_SECOND": "1000000",
        "WS_FRAMES_BURST": "1000000",
        "WS_MESSAGES_PER_SECOND": "1000000",
        "WS_MESSAGES_BURST": "1000000",
        "ACCESS_TOKEN_SECONDS": "7200",
    }
    settings |= env
    service = Service(
        durable=True, template=template, prefix="sesi-bench-", code=code, **settings  # type: ignore[arg-type]  # none of these is a setting
    )  # fmt: skip
    if template is not None:
        os.sync()  # write the copy to disk now, not during the load
    try:
        service.command("migrate")
        service.command("seed", "tiers")
        asyncio.run(_have_wal(service))
        service.start_all()
        for number in range(2, apis + 1):
            _another(service, "api", number, ("PUBLIC", "INTERNAL"))
        for number in range(2, hubs + 1):
            _another(service, "realtime", number, ("REALTIME",))
    except BaseException:
        service.close()
        raise
    return service


async def _have_wal(service: Service) -> None:
    """Create the WAL files that a database has after running for a while, because it reuses old ones.

    A new database must first fill each new file with zeros, which delays every commit by tens of milliseconds.
    """
    connection = await asyncpg.connect(service.database_url)
    try:
        await connection.execute("ALTER SYSTEM SET min_wal_size = '2GB'")
        await connection.execute("ALTER SYSTEM SET max_wal_size = '4GB'")
        await connection.execute("SELECT pg_reload_conf()")
        for _ in range(WAL_FILES):
            await connection.execute("SELECT pg_logical_emit_message(false, 'bench', 'x')")
            await connection.execute("SELECT pg_switch_wal()")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


def _another(service: Service, name: str, number: int, ports: tuple[str, ...]) -> None:
    own = {port: free_port() for port in ports}
    env = {f"{port}_PORT": str(value) for port, value in own.items()}
    service.start(name, key=f"{name}{number}", **env)  # type: ignore[arg-type]  # no setting is called `wait`
    service.wait_ready(name, port=own[ports[-1]])
    for port, value in own.items():
        service.ports[f"{port}{number}"] = value


async def until(good: Callable[[], object], what: str, *, seconds: float = SETTLE_S) -> None:
    """Wait until `good` returns a true value. Raises BenchFailed, naming `what`, after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            while not good():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise BenchFailed(f"not within {seconds:.0f} s: {what}") from None
