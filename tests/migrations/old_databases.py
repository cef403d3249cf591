"""Databases with the schemas of earlier commits."""

import contextlib
import importlib.util
import itertools
import os
import pathlib
from collections.abc import AsyncIterator, Collection, Iterator
from typing import Any

import attrs

from tests.migrations import record
from tests.stack import Stack
from tools.commands import adoption


def point_piccolo_at(url: str) -> None:
    """Point Piccolo at the database of an address."""
    os.environ.setdefault("PICCOLO_CONF", "core.storage.piccolo_conf")
    from core.storage.piccolo_conf import DB

    DB.config["dsn"] = url


async def run_script(path: pathlib.Path, url: str) -> str:
    """Run one migration as Piccolo runs it, without recording it; return its id."""
    point_piccolo_at(url)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    await (await script.forwards()).run()
    return script.ID


@attrs.define
class OldDatabases:
    """Databases that the migrations of earlier commits made.

    Many commits only added migrations to those of an earlier one, so a database begins as a copy of the one that has
    run the most of its migrations, and runs the others. It takes that database itself unless it is one of `kept`, which
    several tests use.
    """

    servers: Stack
    kept: Collection[record.Steps]
    made: dict[record.Steps, str] = attrs.field(factory=lambda: {(): "template1"})
    numbers: Iterator[int] = attrs.field(factory=itertools.count)

    async def of(self, state: record.State, folder: pathlib.Path) -> str:
        """Return the name of the database of a commit. The migrations are run from files in an empty folder."""
        steps = state.steps()
        if steps not in self.made:
            begun = max((ran for ran in self.made if steps[: len(ran)] == ran), key=len)
            if begun and begun not in self.kept:
                name = self.made.pop(begun)
            else:
                name = f"old_{next(self.numbers)}"
                await self.servers.sql(f"CREATE DATABASE {name} TEMPLATE {self.made[begun]}")
            state.write(folder)
            await run_and_record([folder / step[0] for step in steps[len(begun) :]], self.servers.url_of(name))
            self.made[steps] = name
        return self.made[steps]


@contextlib.asynccontextmanager
async def connections(url: str) -> AsyncIterator[None]:
    """Let Piccolo keep its connections to the database of an address; it makes one for each statement otherwise."""
    point_piccolo_at(url)
    from core.storage.piccolo_conf import DB

    await DB.start_connection_pool(min_size=1, max_size=2)
    try:
        yield
    finally:
        await DB.close_connection_pool()


async def run_and_record(scripts: list[pathlib.Path], url: str) -> None:
    """Run migrations on a database, and record them as Piccolo does."""
    async with connections(url):
        from piccolo.apps.migrations.tables import Migration

        await Migration.create_table(if_not_exists=True).run()
        for path in scripts:
            await Migration.insert(Migration(name=await run_script(path, url), app_name="sesi")).run()


async def upgrade(url: str) -> None:
    """Adopt a database and run its pending migrations as `sesi migrate` does, but in this process: an interpreter that
    imports Piccolo for each database would take most of the time."""
    await adoption.adopt(url)
    async with connections(url):
        from piccolo.apps.migrations.commands.forwards import run_forwards

        done = await run_forwards(app_name="sesi")
    assert done.success
