"""Token buckets: their limits, and whose they are (docs/security.md#limits)."""

import functools
import math
from fractions import Fraction

import attrs

from core.base import shares
from core.base.addresses import networks_of

HOUR_US = 3_600_000_000


@attrs.frozen(kw_only=True, cache_hash=True)
class Limit:
    """A bucket's rate, in requests per minute of service time, and its size. `name` labels the metric.

    In an interval of T microseconds, without its end, at most `burst` + ceil(T / `interval`) - 1 requests are granted.
    """

    name: str
    per_minute: float
    burst: int

    @functools.cached_property
    def interval(self) -> int:
        """Microseconds between two requests at the steady rate; a whole number, so that rounding shortens no burst."""
        return int(60_000_000 // self.per_minute)

    @functools.cached_property
    def tolerance(self) -> int:
        """How far ahead of now, in microseconds, a bucket's time may be."""
        return (self.burst - 1) * self.interval

    @functools.cached_property
    def advance(self) -> int:
        """How many requests to take at a time: 1, or more if the limit is high."""
        return max(1, min(self.burst // 64, int(self.per_minute) // 60 // 16))

    def times(self, factor: int, *, name: str) -> "Limit":
        """Return a limit that is `factor` times as high."""
        return Limit(name=name, per_minute=self.per_minute * factor, burst=self.burst * factor)

    def part(self, divisor: int, *, name: str) -> "Limit":
        """Return a limit that is `divisor` times lower, and grants one request at least."""
        return Limit(name=name, per_minute=self.per_minute / divisor, burst=max(1, self.burst // divisor))


def hourly_limit(name: str, most: int) -> Limit:
    """Return a limit of `most` requests in any hour of service time: about half at once, the rest evenly."""
    refilled = Limit(name=name, per_minute=max(1, most // 2) / 60, burst=1)
    within_the_hour = math.ceil(Fraction(HOUR_US, refilled.interval)) - 1
    return attrs.evolve(refilled, burst=most - within_the_hour)


@attrs.frozen
class Charge:
    """A bucket: its limit, and the user or address that it belongs to."""

    limit: Limit
    who: str

    @property
    def key(self) -> str:
        """The bucket's name in Redis.

        In a cluster all buckets are on one server, because several are charged at once.
        """
        return f"sesi:{{rate}}:{self.limit.name}:{self.who}"


Charges = tuple[Charge, ...]


def charges_of_address(limit: Limit, host: str, *, wider: Limit | None = None) -> Charges:
    """Return the buckets of a client's address: its own and, for IPv6, that of its /48 block.

    The block has the limit `wider`, by default ten times `limit`.
    """
    own, *blocks = networks_of(host)
    wider = wider or limit.times(10, name=f"{limit.name}_block")
    return Charge(limit, own), *(Charge(wider, block) for block in blocks)


def charges_of_budget(limit: Limit, host: str) -> tuple[Charges, Charges]:
    """Return a client's buckets of a budget that all share.

    They are those with the share of their network, otherwise with half of the budget. The half is the same bucket, and
    refuses while more than half of the budget is used (core/base/shares.py). A changed limit begins a new count,
    because a request counts as the time in which the budget gains one.
    """
    network, count = shares.network_of(host), str(limit.interval)
    share = limit.part(network.part, name=f"{limit.name}_share")
    half = attrs.evolve(limit, burst=limit.burst // 2)
    return (Charge(limit, count), Charge(share, f"{network.name} {count}")), (Charge(half, count),)
