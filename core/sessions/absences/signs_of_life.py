"""Collect the signs of life of this process's users and store those of the parties of running sessions.

With `peer_absent_seconds` 0, nothing is collected and nothing written (docs/fairness.md#absent-party). Signs are
written together: a new one within PAUSE_S, and those of one user at most each `write_every_s`.
"""

import datetime as dt
from collections.abc import Callable, Iterable

from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.runtime.container import Runtime
from core.sessions.absences import declare, store
from core.telemetry import logs

WRITE_EVERY_S = 5.0  # real seconds between two writes of a party's signs, at most
WRITES = 3  # within the configured silence, at least
LEAST_S = 0.1  # real seconds between two writes, at least
PAUSE_S = 1.0  # real seconds between two looks, at most
GAPS = 10  # a sign is left out if the stored one is younger than this part of the time between two writes

log = logs.get("absences")


def write_every_s(absent_after_s: float, scale: float) -> float:
    """Return the real seconds between two writes of the signs of one party. `absent_after_s` is service time."""
    return max(LEAST_S, min(WRITE_EVERY_S, absent_after_s / scale / WRITES))


class SignsOfLife:
    """The signs of life that this process takes.

    `present` returns the ids of the users with an open socket that answers its pings in time. While they are present
    they give a sign at each write, and one when they leave.
    """

    def __init__(self, runtime: Runtime, *, present: Callable[[], set[str]] | None = None) -> None:
        self._runtime = runtime
        self._present = present or set
        self._noted: dict[str, dt.datetime] = {}
        self._written: dict[str, float] = {}  # user id -> monotonic time of the last write
        self._here: set[str] = set()
        self._looked_at = runtime.now()
        self._next_round = 0.0

    @property
    def _after(self) -> dt.timedelta:
        return self._runtime.config.seconds("peer_absent_seconds")

    def note(self, user_ids: Iterable[str]) -> None:
        """Note a sign of life of a user, under each of their ids."""
        if self._after:
            now = self._runtime.now()
            self._noted.update(dict.fromkeys(user_ids, now))

    async def run(self) -> None:
        """Store the signs until cancelled."""
        while True:
            after = self._after.total_seconds()
            every = write_every_s(after, self._runtime.clock.scale) if after else PAUSE_S
            await real_sleep(min(PAUSE_S, every))
            if not self._after:
                self._here = set()
                continue
            try:
                await self.write(every_s=every)
            except Unavailable:
                self._runtime.note_overload()
            except Exception:
                log.exception("storing signs of life failed")

    async def write(self, *, every_s: float) -> None:
        """Store the signs that are due. If that fails, they are due again."""
        started, now, present = monotonic(), self._runtime.now(), self._present()
        is_round = started >= self._next_round
        due = {user: at for user, at in self._noted.items() if self._written.get(user, -every_s) + every_s <= started}
        signs = due | dict.fromkeys(self._here - present, self._looked_at)
        signs |= dict.fromkeys(present if is_round else present - self._here, now)
        if signs:
            gap = dt.timedelta(seconds=every_s * self._runtime.clock.scale / GAPS)
            async with self._runtime.transaction() as tx:
                await store.see(tx, signs, gap=gap)
        for user, at in due.items():
            if self._noted[user] == at:  # no newer one since
                del self._noted[user]
        self._written = {user: at for user, at in self._written.items() if at + every_s > started}
        self._written |= dict.fromkeys(due, started)
        if is_round:
            self._next_round = started + every_s
        self._here, self._looked_at = present, now
        if signs:
            await self._end_absences(list(signs))

    async def _end_absences(self, user_ids: list[str]) -> None:
        """End the absences of these users, who have returned, without waiting for the jobs process."""
        if await store.any_open(self._runtime.db):
            async with self._runtime.transaction() as tx:
                await declare.end_returned(self._runtime, tx, user_ids=user_ids)
