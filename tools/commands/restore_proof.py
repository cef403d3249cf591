"""Prove that a backup can be used: restore it into a temporary server, audit it and compare it with the gateway."""

import contextlib
import datetime as dt
import pathlib
import time
import urllib.parse
from collections.abc import Iterator

import asyncpg
import attrs
from rich.markup import escape

from core.app.reactions import open_runtime
from core.base.addresses import database_urls
from core.base.clock import as_text
from core.base.progress import Report
from core.desk.ledger.audit import audit
from core.runtime.container import Runtime
from core.settings.settings import Settings
from tools.commands import backups, gateway, migrate, progress, restored
from tools.commands.backups import Backup, BackupError
from tools.commands.restored import Restored, Source
from tools.commands.running import Failed, console

COMPARED = dt.timedelta(days=7)  # how far back the gateway's invoices are compared, unless --since says otherwise
NOWHERE = "redis://127.0.0.1:1/0"  # no signal of the restored service may reach the processes of the real one
WRITTEN = "SELECT clock_timestamp(), pg_last_xact_replay_timestamp()"


@attrs.frozen(kw_only=True)
class Order:
    """What to prove. `max_age` is how old the newest restored data may be; it does not apply to a moment (`to`)."""

    config: pathlib.Path | None
    stanza: str
    to: dt.datetime | None
    since: dt.datetime | None
    max_age: dt.timedelta
    folder: pathlib.Path
    postgres: pathlib.Path | None
    database: str | None
    user: str | None


def names_of(url: str) -> tuple[str, str]:
    """Return (database, user) of a database URL, or the usual names if it has none."""
    parts = urllib.parse.urlsplit(database_urls(url)[0])
    found = dict(urllib.parse.parse_qsl(parts.query))
    database = urllib.parse.unquote(parts.path.removeprefix("/")) or found.get("dbname", "sesi")
    return database, urllib.parse.unquote(parts.username or "") or found.get("user", "postgres")


def chosen(made: list[Backup], order: Order) -> Backup:
    """Return the backup from which the restore begins. Raises BackupError."""
    fitting = [one for one in made if order.to is None or one.ended_at <= order.to]
    if not made:
        raise BackupError(f"the stanza {order.stanza} has no backup: run `pgbackrest --stanza={order.stanza} backup`")
    if not fitting:
        raise BackupError(f"no backup is older than --to: the oldest ended at {as_text(made[0].ended_at)}")
    return fitting[-1]


@attrs.frozen
class ProofStep:
    """A step that runs: the texts to show at its end, and the report of its progress."""

    report: Report
    said: list[str] = attrs.field(factory=list)


@contextlib.contextmanager
def step(what: str) -> Iterator[ProofStep]:
    """Show the progress of a step, and at its end what it did."""
    began = time.monotonic()
    with progress.shown(what) as report:
        yield (made := ProofStep(report))
    said = made.said
    console.print(f"{what:<8} {time.monotonic() - began:7.1f} s  {escape('; '.join(said))}")


async def prove(order: Order, settings: Settings) -> bool:
    """Run the proof; return whether everything was right. Raises BackupError, and Failed for what is missing."""
    with step("find") as made:
        backup = chosen(backups.backups(order.config, order.stanza), order)
        programs = restored.programs(order.postgres, backup.version)
        made.said.append(
            f"{backup.kind} backup {backup.label} of {as_text(backup.ended_at)}, {backup.size >> 20:,} MiB, "
            f"PostgreSQL {backup.version}"
        )
    database, user = names_of(settings.database_url)
    source = Source(config=order.config, stanza=order.stanza, to=order.to, programs=programs)
    with restored.restored(
        source, backup, parent=order.folder, database=order.database or database, user=order.user or user
    ) as server:
        return await _prove(order, settings, backup, server)


async def _prove(order: Order, settings: Settings, backup: Backup, server: Restored) -> bool:
    with step("restore") as made:
        server.restore(backup, made.report)
        made.said.append(f"into {server.folder}")
    with step("recover") as made:
        server.start()
        connection = await server.connect()
        try:
            row = await connection.fetchrow(WRITTEN)
            assert row is not None
            now, replayed = row
        finally:
            await connection.close()
        newest = replayed or backup.ended_at  # no transaction came after the backup
        age = now - newest
        well = order.to is not None or age <= order.max_age
        made.said.append(f"the newest data is of {as_text(newest)}, {age.total_seconds():.0f} s ago")
        if not well:
            made.said.append(f"more than {order.max_age}: does the production server archive its log?")
    await _require_schema(server)
    isolated = attrs.evolve(
        settings,
        database_url=server.url, database_read_url="", database_pooler="none", redis_url=NOWHERE,
    )  # fmt: skip
    runtime = await open_runtime(isolated, pool_size=2)
    try:
        return all([well, await _audited(runtime, newest), await _compared(runtime, order, newest)])
    finally:
        await runtime.close()


async def _require_schema(server: Restored) -> None:
    try:
        missing = await migrate.pending(server.url)
    except asyncpg.PostgresError as error:
        raise Failed(f"the restored database can't be read: {error}") from error
    if missing:
        raise Failed(
            f"the restored database lacks {len(missing)} migrations: it is older than this version of sesi, or not the "
            "service's database. Use the version that ran then, or name the database by --database"
        )


async def _audited(runtime: Runtime, newest: dt.datetime) -> bool:
    with step("audit") as made:
        age_s = max(0.0, (runtime.clock.real_now() - newest).total_seconds())
        books = await audit(runtime, age_s=age_s, report=made.report)
        made.said.append(f"{books.sessions} sessions, {books.payments} payments, {len(books.violations)} violations")
    for violation in books.violations:
        console.print(f"{violation.rule}: {violation.id}: {violation.detail}", markup=False)
    return not books.violations


async def _compared(runtime: Runtime, order: Order, newest: dt.datetime) -> bool:
    if runtime.gateway is None:
        console.print("compare  skipped: GATEWAY_ENABLED is false")
        return True
    with step("compare") as made:
        found = await gateway.read(runtime, since=order.since or newest - COMPARED, until=newest, report=made.report)
        made.said.append(f"{found.under_way} invoices changed after the newest data")
    gateway.show(found)
    return not found.differs
