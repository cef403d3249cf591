"""`sesi up` and `sesi try`: run the whole service on one machine: embedded servers, migrations, defaults and the three
processes."""

import asyncio
import contextlib
import fcntl
import itertools
import os
from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import IO, Any, TypeVar

import attrs
from rich.table import Table

from core.app.reactions import open_runtime
from core.base.addresses import host_and_port
from core.base.process import stop_event
from core.base.progress import Report, part
from core.desk import setup
from core.runtime.container import Runtime
from core.settings.environment import meet
from core.settings.settings import Settings, SettingsError
from tools.commands import environment, migrate, progress
from tools.commands.children import Child, console, end_orphans, note_children, note_file
from tools.embedded.servers import Embedded

T = TypeVar("T")
PROCESSES = ("api", "realtime", "jobs")
READY_S = 30.0
MIGRATED = 0.9  # share of the preparation of an empty database


class Edition:
    """What a command seeds in a new database, and what it prints."""

    rows: Mapping[str, Any] = MappingProxyType({})
    """Values of new configuration rows, instead of their defaults."""

    async def seed(self, runtime: Runtime) -> None:
        """Add rows after the defaults."""

    def show_administrator(self, email: str, password: str) -> None:
        """Print the sign-in of the first administrator, in a line, because a narrow window would cut a table."""
        console.print(f"administrator (shown once)  {email}  {password}", soft_wrap=True, markup=False)

    def show(self, settings: Settings) -> None:
        """Print the addresses of the service."""
        show(settings)


async def prepare(settings: Settings, edition: Edition, report: Report) -> None:
    """Migrate and seed the database. Show the first administrator, if one is created."""
    migrate.require_direct(settings)
    await migrate.migrate(settings.database_url, part(report, 0.0, MIGRATED))
    report(MIGRATED, "defaults")
    runtime = await open_runtime(settings, pool_size=2)
    try:
        await migrate.make_partitions(runtime)
        await setup.seed_defaults(runtime, edition.rows)
        await setup.seed_prices(runtime, setup.TIERS, setup.PROMOTION)
        administrator = None if settings.production else await setup.first_administrator(runtime)
        if administrator is not None:
            edition.show_administrator(*administrator)
        await edition.seed(runtime)
    finally:
        await runtime.close()


async def ready(url_host: str, port: int, path: str) -> bool:
    """Return whether a probe answers 200."""
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(url_host, port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            line = await reader.readline()
            writer.close()
            return b" 200 " in line
    except (OSError, TimeoutError):
        return False


async def wait_ready(settings: Settings, report: Report) -> None:
    """Wait until every process is ready. Raises SettingsError that names the process that isn't, and its log."""
    probes = [
        ("api", settings.internal_host, settings.internal_port, "/readyz"),
        ("api", settings.public_host, settings.public_port, "/healthz"),
        ("realtime", settings.realtime_host, settings.realtime_port, "/readyz"),
        ("jobs", settings.jobs_host, settings.jobs_port, "/readyz"),
    ]
    for number, (name, host, port, path) in enumerate(probes):
        report(number / len(probes), name)
        try:
            async with asyncio.timeout(READY_S):
                while not await ready(host, port, path):
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            raise SettingsError(f"{name} is not ready: see {settings.sesi_data_dir}/log/{name}.log") from error


def check_ports(settings: Settings) -> None:
    """Raise SettingsError if a port is in use, or if two listeners have the same one."""
    for (one, host, port), (other, its_host, its_port) in itertools.combinations(environment.ports_of(settings), 2):
        if port == its_port and meet(host, its_host):
            raise SettingsError(f"{one} and {other}: expected different ports")
    for listener in environment.ports_of(settings):
        problem = environment.why_not(*listener)
        if problem is not None:
            raise SettingsError(problem)


def show(settings: Settings) -> None:
    """Print the addresses of the service."""
    table = Table(title="Sesi is running", title_justify="left")
    table.add_column("what")
    table.add_column("where", overflow="fold")
    public, internal = (
        host_and_port(settings.public_host, settings.public_port),
        host_and_port(settings.internal_host, settings.internal_port),
    )
    table.add_row("public API", f"http://{public}")
    table.add_row("control center, internal API", f"http://{internal}/internal")
    table.add_row(
        "WebSockets", f"ws://{host_and_port(settings.realtime_host, settings.realtime_port)}/ws/chat, /ws/pairing"
    )
    table.add_row("jobs (health, metrics)", f"http://{host_and_port(settings.jobs_host, settings.jobs_port)}")
    if not settings.production:
        table.add_row("apps to try", f"http://{public}/try/")
        table.add_row("codes, pushes and invoices", f"http://{public}/dev/inbox")
    table.add_row("logs", f"{settings.sesi_data_dir}/log")
    console.print(table)
    console.print("Try `sesi demo`. Ctrl-C stops everything.")


async def up(settings: Settings, edition: Edition) -> int:
    """Run until SIGTERM or Ctrl-C; return the exit code."""
    stopping = stop_event()
    if not os.environ.get("DRAIN_SECONDS"):  # without a load balancer
        settings = attrs.evolve(settings, drain_seconds=0)
    mine = hold(settings)
    if mine is not None:
        end_orphans(settings)
    check_ports(settings)
    own: Embedded | None = None
    if not (settings.database_url and settings.redis_url):
        own = Embedded(settings.sesi_data_dir)
        with progress.shown("servers") as report:
            report(0.0, "PostgreSQL and Valkey")
            servers = await asyncio.to_thread(own.start)
        settings = attrs.evolve(
            settings,
            database_url=settings.database_url or servers.database_url,
            redis_url=settings.redis_url or servers.redis_url,
        )
    try:
        with progress.shown("database") as report:
            await _unless_stopped(prepare(settings, edition, report), stopping)
        await _keep_all(settings, edition, own, stopping, noted=mine is not None)
    finally:
        if own is not None:
            await asyncio.to_thread(own.stop)
        if mine is not None:
            note_file(settings).unlink(missing_ok=True)
            mine.close()
        console.print("Sesi has stopped.")
    return 0


async def _keep_all(
    settings: Settings, edition: Edition, own: Embedded | None, stopping: asyncio.Event, *, noted: bool
) -> None:
    """Start the processes, restart those that end, and stop them all when `stopping` is set.

    With `noted`, record their process ids, so that the next `sesi up` can end them if this one is killed.
    """
    if stopping.is_set():
        return
    logs = settings.sesi_data_dir / "log"
    logs.mkdir(parents=True, exist_ok=True)
    env = child_environment(settings, os.environ)
    children = [Child(name, env, logs / f"{name}.log") for name in PROCESSES]

    def note() -> None:
        if noted:
            note_children(settings, children)

    keepers: list[asyncio.Task[None]] = []
    try:
        for child in children:
            await child.start()
            note()
        keepers = [asyncio.create_task(child.keep(stopping, note)) for child in children]
        with progress.shown("processes") as report:
            await _unless_stopped(wait_ready(settings, report), stopping)
        if not stopping.is_set():
            edition.show(settings)
        await _watch(own, stopping)
    finally:
        stopping.set()
        async with asyncio.TaskGroup() as group:
            for child in children:
                group.create_task(child.stop(settings.drain_seconds + settings.shutdown_grace_seconds))
        for keeper in keepers:
            keeper.cancel()


def child_environment(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the processes: `environ` with the URLs and the drain time of `settings`.

    `…_FILE` variables of these settings are left out, because setting both is an error.
    """
    known = {
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "DRAIN_SECONDS": str(settings.drain_seconds),
    }
    return {name: value for name, value in environ.items() if name.removesuffix("_FILE") not in known} | known


async def _unless_stopped(work: Coroutine[Any, Any, T], stopping: asyncio.Event) -> T | None:
    """Return the result of `work`, or cancel it and return None if `stopping` is set first."""
    waiting = asyncio.create_task(work)
    stopper = asyncio.create_task(stopping.wait())
    await asyncio.wait([waiting, stopper], return_when=asyncio.FIRST_COMPLETED)
    stopper.cancel()
    if waiting.done():
        return waiting.result()
    waiting.cancel()
    await asyncio.wait([waiting])
    return None


def hold(settings: Settings) -> IO[str] | None:
    """Return the lock of a data directory, held until it is closed, or None if another `sesi up` holds it."""
    settings.sesi_data_dir.mkdir(parents=True, exist_ok=True)
    lock = (settings.sesi_data_dir / "up.lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


async def _watch(own: Embedded | None, stopping: asyncio.Event) -> None:
    """Restart embedded servers that end, until `stopping` is set."""
    while not stopping.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await stopping.wait()
        if own is not None and not stopping.is_set():
            for name in await asyncio.to_thread(own.watch):
                console.print(f"[yellow]{name} ended; it was restarted[/]")
