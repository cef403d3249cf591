"""Ranges of ids by time. A UUIDv7 begins with its milliseconds, so the ids of a month are a range (docs/scale.md).

Ids have real time. Where service time is scaled, which production refuses, the time of a row tells nothing about its
id: pass the scale, and the bounds hold every id. To compare ids with a moment of service time alone, convert it
(`Clock.real_time`).

Bounds are texts that compare like ids, but no row has them: `first_id` is below every id of its moment. A month is the
moment at which it begins, in UTC.
"""

import datetime as dt
import uuid

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
LATEST = dt.datetime(9999, 1, 1, tzinfo=UTC)
MILLISECOND = dt.timedelta(milliseconds=1)
# How far the time of an id may be from the time of its row: clocks of machines differ, and a step of the database's
# clock leaves ids ahead of it.
SLACK = dt.timedelta(days=1)
_MOST = (1 << 48) - 1  # milliseconds that fit into an id


def first_id(moment: dt.datetime) -> str:
    """Return the bound below the ids of `moment` and of later times. Times before 1970 have the bound of 1970."""
    return _bound((moment - EPOCH) // MILLISECOND)


def since(moment: dt.datetime, *, older: dt.timedelta = SLACK, scale: float = 1) -> str:
    """Return a bound that no id of a row from `moment` or later is below: that of a month.

    `scale` is that of the time of rows. `older`: by how much an id may be older than its row, as that of a session is
    older than its invitations.

    A tighter bound would find no fewer partitions. But PostgreSQL would take it for a condition that halves the rows of
    a partition, and not see that the condition on their time does so already.
    """
    return first_id(month_of(max(moment, EPOCH + older) - older) if scale == 1 else EPOCH)


def until(moment: dt.datetime, *, scale: float = 1) -> str:
    """Return a bound that every id of a row from before `moment` is below: that of a month. `scale` as for `since`."""
    return first_id(months_after(month_of((min(moment, LATEST) if scale == 1 else LATEST) + SLACK), 1))


def _bound(milliseconds: int) -> str:
    return str(uuid.UUID(int=min(max(milliseconds, 0), _MOST) << 80))


def moment_of(bound: str) -> dt.datetime:
    """Return the time of a bound or of a UUIDv7. Raises OverflowError after the year 9999."""
    return EPOCH + (uuid.UUID(bound).int >> 80) * MILLISECOND


def since_named(named: str | None) -> str:
    """Return the bound that no id of a row that names the id `named` is below, because `named` is older.

    Without an id, or with one that is no UUIDv7 and so has no time, that is the lowest bound.
    """
    if named is None or uuid.UUID(named).version != 7:
        return first_id(EPOCH)
    return _bound((uuid.UUID(named).int >> 80) - SLACK // MILLISECOND)


def month_of(moment: dt.datetime) -> dt.datetime:
    """Return the month of a moment."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def months_after(month: dt.datetime, count: int) -> dt.datetime:
    """Return the month that is `count` months after `month`; before it if `count` is negative."""
    number = month.year * 12 + month.month - 1 + count
    return month.replace(year=number // 12, month=number % 12 + 1)


def months_between(month: dt.datetime, later: dt.datetime) -> int:
    """Return how many months `later` is after `month`."""
    return (later.year - month.year) * 12 + later.month - month.month
