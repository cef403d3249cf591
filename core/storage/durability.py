"""Whether acknowledged data survives a crash of the database server, and a failover to a standby.

The processes warn about it when they start, and `sesi doctor` reports it.
"""

from collections.abc import Sequence
from typing import Any

import attrs

from core.storage import sql_files

SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class Durability:
    """What the server reports.

    `several_hosts`: DATABASE_URL names several, so a failover is expected. `overrides`: the statements that turn
    synchronous commits off for a role that may write, or for the database.
    """

    several_hosts: bool
    read_only: bool
    synchronous_commit: str
    fsync: str
    full_page_writes: str
    names: str
    standbys: int
    overrides: Sequence[str] = ()

    @property
    def waits_for_standby(self) -> bool:
        """Whether a commit is acknowledged only when a standby has it."""
        return self.standbys > 0 and self.names != "" and self.synchronous_commit not in ("off", "local")

    def problems(self, *, production: bool) -> list[str]:
        """Return how acknowledged data could be lost, each with its fix.

        Development machines and tests may lose data with a loss of power, so only production asks for the disk.
        """
        found = []
        if self.read_only:
            found.append(
                "the server is read-only: name the primary in DATABASE_URL, or set default_transaction_read_only = off"
            )
        if self.synchronous_commit == "off":
            found.append("a crash loses the latest acknowledged data: set synchronous_commit = on")
        found += [
            f"a crash loses what this role or database was told is stored: use {override} RESET synchronous_commit"
            for override in self.overrides
        ]
        if production:
            found += [
                f"a loss of power may destroy the database: set {name} = on"
                for name in ("fsync", "full_page_writes")
                if getattr(self, name) == "off"
            ]
        if (self.standbys or self.several_hosts) and not self.waits_for_standby:
            found.append(
                "a failover to the standby loses the latest acknowledged data: name it in synchronous_standby_names, "
                "with synchronous_commit = on"
                if self.standbys
                else "DATABASE_URL names several hosts, but no standby follows the primary: a failover would lose data"
            )
        return found


async def find(reader: Any, *, several_hosts: bool) -> Durability:
    """Ask the server over a connection or a pool."""
    return Durability(**dict(await reader.fetchrow(SQL["find"])), several_hosts=several_hosts)
