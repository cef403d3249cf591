"""How long customers are promised to wait for a mitra, and when nothing is promised (docs/fairness.md#honest-promise).

A wait is the time from the confirmation of the payment to the acceptance, in service time. The estimate for an hour of
the day is made of the searches of the last DAYS that began in that hour or in the one before or after it.
"""

import datetime as dt

import attrs

DAYS = dt.timedelta(days=28)
AROUND = dt.timedelta(hours=1)  # before and after the hour
HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
LEAST_SEARCHES = 30
JUDGED = 100  # promises that decide whether estimates are shown, at most
LEAST_JUDGED = 20  # fewer count as 20, so that a few misses among the first promises decide nothing
USABLE = dt.timedelta(minutes=30)  # an older estimate is not used: the jobs processes have stopped
AHEAD = dt.timedelta(minutes=10)  # the next hour is estimated this long before it begins

Interval = tuple[dt.datetime, dt.datetime]


@attrs.frozen(kw_only=True)
class Waits:
    """The number of searches, and the seconds within which half and nine tenths of them were accepted.

    None: fewer were accepted at all.
    """

    searches: int
    p50_seconds: int | None
    p90_seconds: int | None


@attrs.frozen(kw_only=True)
class JudgedPromises:
    """The newest promises whose time is over, at most JUDGED, and how many of them missed p90."""

    judged: int
    missed: int


@attrs.frozen(kw_only=True)
class Estimate:
    """A row of wait_estimates: the waits at an hour of the day, and the verdict on all promises, at one moment."""

    hour: int
    searches: int
    p50_seconds: int | None
    p90_seconds: int | None
    judged: int
    missed: int
    estimated_at: dt.datetime

    @classmethod
    def of(cls, hour: int, waits: Waits, verdict: JudgedPromises, *, at: dt.datetime) -> "Estimate":
        """Return the estimate for an hour that was made at a moment."""
        return cls(
            hour=hour,
            searches=waits.searches,
            p50_seconds=waits.p50_seconds,
            p90_seconds=waits.p90_seconds,
            judged=verdict.judged,
            missed=verdict.missed,
            estimated_at=at,
        )


@attrs.frozen(kw_only=True)
class Promise:
    """The promised waits. One that is not shown is stored for the verdict only."""

    p50_seconds: int
    p90_seconds: int
    is_shown: bool


def hour_of(moment: dt.datetime) -> int:
    """Return the hour of the day of a moment, in UTC."""
    return moment.astimezone(dt.UTC).hour


def hours_to_estimate(now: dt.datetime) -> list[int]:
    """Return the present hour of the day, and the next one shortly before it begins."""
    return sorted({hour_of(now), hour_of(now + AHEAD)})


def same_hours(hour: int, *, now: dt.datetime, longest: dt.timedelta) -> list[Interval]:
    """Return the intervals in which searches must have begun to count for an hour of the day, the oldest first.

    `longest` is the length of a search. Younger searches are left out together: those that have ended already had the
    shortest waits.
    """
    oldest, youngest = now - DAYS, now - longest
    midnight = oldest.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    begin = midnight - DAY + hour * HOUR - AROUND
    intervals: list[Interval] = []
    while begin < youngest:
        interval = (max(begin, oldest), min(begin + HOUR + 2 * AROUND, youngest))
        if interval[0] < interval[1]:
            intervals.append(interval)
        begin += DAY
    return intervals


def is_withdrawn(judged: int, missed: int) -> bool:
    """Return whether estimates are withdrawn, because more than a quarter of the judged promises missed p90."""
    return 4 * missed > max(judged, LEAST_JUDGED)


def promise(estimate: Estimate | None, *, now: dt.datetime) -> Promise | None:
    """Return what a customer is promised now by the estimate for the present hour; None for nothing."""
    if estimate is None or estimate.p50_seconds is None or estimate.p90_seconds is None:
        return None
    if estimate.searches < LEAST_SEARCHES or estimate.estimated_at + USABLE < now:
        return None
    return Promise(
        p50_seconds=estimate.p50_seconds,
        p90_seconds=estimate.p90_seconds,
        is_shown=not is_withdrawn(estimate.judged, estimate.missed),
    )
