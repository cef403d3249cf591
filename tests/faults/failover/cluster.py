"""A real primary with a real standby, each behind a proxy; a test kills, freezes or isolates the primary and promotes
the standby.

PostgreSQL's own programs do the work: `pg_basebackup` creates the standby, streaming replication feeds it, and
`pg_promote` makes it the primary. They are part of the package that contains the embedded server.
"""

import asyncio
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import asyncpg

from tests.faults.proxy import Mode, Proxy
from tests.stack import Stack
from tools.embedded import programs
from tools.embedded.servers import Embedded

STANDBY = "standby"  # the standby's name in synchronous_standby_names
CAUGHT_UP_S = 20.0
CAUGHT_UP = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND replay_lsn >= pg_current_wal_lsn()"


class Standby(Embedded):
    """A server that starts as a copy of another one and follows it."""

    def __init__(self, data_dir: pathlib.Path, *, primary: Proxy) -> None:
        super().__init__(data_dir, durable=False)
        self._primary = primary

    def _fill(self, folder: pathlib.Path) -> None:
        """Copy the primary; `-R` writes the connection to it into the configuration."""
        source = f"host=127.0.0.1 port={self._primary.port} user=postgres application_name={STANDBY} sslmode=disable"
        command = [self._binaries / "pg_basebackup", "-d", source, "-D", folder, "-R", "-X", "stream", "-c", "fast"]
        programs.run([*command, "--no-sync"], self._account)


def processes_of(postmaster: int) -> list[int]:
    """Return the processes of a server, the postmaster last."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # another kind of entry, or a process that has ended
            pid, _, rest = (process / "stat").read_text().partition(" (")
            if int(rest.rpartition(") ")[2].split()[1]) == postmaster:
                found.append(int(pid))
    return [*found, postmaster]


def signal_server(postmaster: int, number: signal.Signals) -> None:
    """Send a signal to all processes of a server."""
    for pid in processes_of(postmaster):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """Yield a port that accepts connections and never answers, like a frozen machine."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        yield listener.getsockname()[1]


class Pair:
    """A primary and a standby. `url` names a silent host first, then both servers."""

    def __init__(self, *, synchronous: bool = True) -> None:
        self._ends = contextlib.ExitStack()
        self.stack = Stack(only_database=True)
        self._ends.callback(self.stack._stop_all)
        try:
            self._begin(synchronous)
        except BaseException:
            self._ends.close()
            raise

    def _begin(self, synchronous: bool) -> None:
        self.primary_url = self.stack.database_url
        self.primary_pid = self.stack.servers.pids["postgres"]
        self._ends.callback(self.thaw)
        self.to_primary = self._proxy(self.primary_url)
        self.replication = self._proxy(self.primary_url)
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="sesi-standby-"))
        self._ends.callback(shutil.rmtree, self.root, ignore_errors=True)
        self.standby = Standby(self.root, primary=self.replication)
        self.standby_url = self.standby.start().database_url
        self._ends.callback(lambda: shutil.rmtree(self.standby.postgres_dir, ignore_errors=True))
        self._ends.callback(self.standby.stop)
        self.to_standby = self._proxy(self.standby_url)
        silent = self._ends.enter_context(silent_port())
        hosts = [f"127.0.0.1:{port}" for port in (silent, self.to_primary.port, self.to_standby.port)]
        self.url = f"postgresql://postgres@{','.join(hosts)}/sesi?sslmode=disable&target_session_attrs=read-write"
        if synchronous:
            asyncio.run(self._make_synchronous())
        self.stack.env["DATABASE_URL"] = self.url

    def _proxy(self, url: str) -> Proxy:
        made = Proxy(url)
        self._ends.callback(made.close)
        return made

    async def _make_synchronous(self) -> None:
        await self.on_primary(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
        await self.on_primary("SELECT pg_reload_conf()")
        await self.caught_up()

    async def on_primary(self, statement: str) -> list[Any]:
        """Run a statement on the original primary."""
        return await _run(self.primary_url, statement)

    async def on_standby(self, statement: str) -> list[Any]:
        """Run a statement on the original standby."""
        return await _run(self.standby_url, statement)

    async def caught_up(self) -> None:
        """Wait until the standby has everything that the primary has committed."""
        deadline = time.monotonic() + CAUGHT_UP_S
        while not (await self.on_primary(CAUGHT_UP))[0][0]:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)

    # -- faults

    def kill(self) -> None:
        """Kill the primary, as when its machine loses power."""
        signal_server(self.primary_pid, signal.SIGKILL)

    def freeze(self) -> None:
        """Freeze the primary; its connections stay open."""
        signal_server(self.primary_pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume a frozen primary; a killed one stays dead."""
        if self.stack.servers.pids.get("postgres") == self.primary_pid:
            signal_server(self.primary_pid, signal.SIGCONT)

    def isolate(self) -> None:
        """Cut the primary off from the service and from the standby."""
        self.to_primary.switch(Mode.HANG)
        self.replication.switch(Mode.HANG)

    async def promote(self) -> float:
        """Promote the standby; return the monotonic time at which it accepts writes."""
        await self.on_standby("SELECT pg_promote(true, 30)")
        self.stack.database_url = self.standby_url
        return time.monotonic()

    def close(self) -> None:
        """Stop everything. The processes are killed: without a database, each would take seconds to stop."""
        for process in self.stack.processes.values():
            process.kill()
        self._ends.close()


async def _run(url: str, statement: str) -> list[Any]:
    connection = await asyncpg.connect(url, timeout=5)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()
