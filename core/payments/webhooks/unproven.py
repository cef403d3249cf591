"""Budgets of webhook calls whose token is not compared yet, or not valid.

Anyone can send such calls, so they share three budgets (docs/security.md#limits). Their use is counted in webhook_logs.
So the budgets hold over all processes, but for the few calls that other processes store at the same moment.
"""

import asyncio
import datetime as dt
import math
from collections import Counter
from typing import Any

import attrs

from core.base import shares
from core.base.addresses import TrustedProxies
from core.base.clock import monotonic
from core.base.id_ranges import since
from core.base.shares import BudgetUse, Network
from core.settings.settings import Settings
from core.storage import sql_files
from core.storage.database import Database
from core.telemetry import metrics

KEPT = 4_096  # bytes of each body
CALLS, LARGE = 600, 60  # stored in a minute; of them, with a whole body of more than KEPT bytes
STORED = 32 * 1024 * 1024  # bytes of all bodies of an hour, up to which large ones are kept whole
MINUTE, HOUR = dt.timedelta(minutes=1), dt.timedelta(hours=1)
UNFINISHED = dt.timedelta(seconds=10)  # real time; a call without a result after this will get none from its process
CONNECTIONS = 4  # of the database, for calls whose token is not compared yet or not valid
REMEMBERED_S = 1.0  # seconds for which a refusal holds without another look
REMEMBERED = 4_096  # networks with a refusal
EVERYBODY = "everybody"  # among the names of networks
SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class Look:
    """The used parts of the budgets of the last minute, and the times of the oldest calls in it."""

    calls: BudgetUse
    large: BudgetUse
    oldest: dt.datetime | None
    oldest_of_network: dt.datetime | None


class UnprovenCalls:
    """The budgets as one process looks at them. The gateway's addresses are exempt from the shares of networks."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._scale = settings.sesi_time_scale
        self._remembered_s = REMEMBERED_S / self._scale
        self._gateway = TrustedProxies(settings.gateway_source_networks)
        self._refused: dict[str, tuple[float, int]] = {}  # network -> (monotonic time, seconds to wait)
        self._storing: Counter[str] = Counter()  # calls of this process, by network, whose token isn't compared yet
        self._large = asyncio.Lock()
        self.connections = asyncio.Semaphore(CONNECTIONS)

    async def admit(self, host: str, *, now: dt.datetime) -> int:
        """Count a call that is about to be stored, until `done`. Return 0, or the seconds to wait if it must not be."""
        network, exempt = shares.network_of(host), self._gateway.trusts(host)
        if wait_s := self._remembered(network, exempt=exempt):
            return wait_s
        before = self._storing.copy()
        look = await self._look(network, now=now)
        calls = BudgetUse(
            by_all=look.calls.by_all + max(before.total(), self._storing.total()),
            by_network=look.calls.by_network + max(before[network.name], self._storing[network.name]),
        )
        if shares.is_full(calls, most=CALLS):
            return self._refuse(EVERYBODY, look.oldest, now=now)
        if not exempt and shares.has_no_share_left(calls, network, most=CALLS):
            return self._refuse(network.name, look.oldest_of_network, now=now)
        self._storing[network.name] += 1
        return 0

    def done(self, host: str) -> None:
        """Stop counting an admitted call: its row has a result, or its token is valid."""
        name = shares.network_of(host).name
        self._storing[name] -= 1
        if not self._storing[name]:
            del self._storing[name]

    def _remembered(self, network: Network, *, exempt: bool) -> int:
        for one in (EVERYBODY,) if exempt else (EVERYBODY, network.name):
            until, wait_s = self._refused.get(one, (0.0, 0))
            if monotonic() < until:
                return wait_s
        return 0

    def _refuse(self, network: str, oldest: dt.datetime | None, *, now: dt.datetime) -> int:
        """Remember a refusal, and return the seconds until the oldest counted call is a minute old."""
        wait_s = max(1, math.ceil(((oldest or now) + MINUTE - now).total_seconds()))
        if len(self._refused) >= REMEMBERED:
            self._refused.clear()
        self._refused[network] = (monotonic() + self._remembered_s, wait_s)
        return wait_s

    async def _look(self, network: Network, *, now: dt.datetime) -> Look:
        row = await self._fetch(SQL["calls"], now - MINUTE, network, KEPT, now - UNFINISHED * self._scale)
        return Look(
            calls=BudgetUse(by_all=row["calls"], by_network=row["calls_of_network"]),
            large=BudgetUse(by_all=row["large"], by_network=row["large_of_network"]),
            oldest=row["oldest"],
            oldest_of_network=row["oldest_of_network"],
        )

    async def _fetch(self, statement: str, begin: dt.datetime, network: Network, *more: Any) -> Any:
        row = await self._db.fetchrow(statement, begin, network.cidr, since(begin, scale=self._scale), *more)
        assert row is not None
        return row

    async def refuse(self, log_id: str, body: bytes, host: str, *, most: int, now: dt.datetime) -> None:
        """Store the result of a call, and `most` bytes of a large body if the budgets have room."""
        if len(body) <= KEPT:
            await self._db.fetch(SQL["refuse"], log_id, None, None)
            return
        async with self._large:  # so that calls of this process don't decide by the same look
            whole = await self._has_room(host, now=now)
            await self._db.fetch(SQL["refuse"], log_id, body[:most] if whole else None, len(body) > most)

    async def _has_room(self, host: str, *, now: dt.datetime) -> bool:
        """Return whether a large body may be kept whole."""
        network, exempt = shares.network_of(host), self._gateway.trusts(host)
        large = (await self._look(network, now=now)).large
        if not _fits(large, network, most=LARGE, exempt=exempt):
            metrics.LIMITED.labels("webhook_unproven_bodies").inc()
            return False
        row = await self._fetch(SQL["bodies"], now - HOUR, network)
        stored = BudgetUse(by_all=row["stored"], by_network=row["stored_of_network"])
        fits = _fits(stored, network, most=STORED, exempt=exempt)
        if not fits:
            metrics.LIMITED.labels("webhook_unproven_bytes").inc()
        return fits

    async def complete(self, log_id: str, body: bytes, *, most: int) -> None:
        """Store the body of a call whose token is valid, of which only the first KEPT bytes are stored."""
        await self._db.fetch(SQL["complete"], log_id, body[:most], len(body) > most)


def _fits(used: BudgetUse, network: Network, *, most: int, exempt: bool) -> bool:
    if shares.is_full(used, most=most):
        return False
    return exempt or not shares.has_no_share_left(used, network, most=most)
