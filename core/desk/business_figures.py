"""The figures of the business: money, chats and unserved searches by day, mode, tier, channel or cause.

See docs/product.md#figures. Days are those of the configuration row `business_time_zone`, so a day may have 23 or 25
hours.
"""

import datetime as dt
import enum
import zoneinfo

import attrs

from core.base.errors import ValidationFailed
from core.base.languages import Text
from core.base.pages import rounded_lag
from core.runtime.container import Runtime
from core.storage import sql_files

DAY = dt.timedelta(days=1)
USUAL = 30  # days, today included
MOST = 92  # days: a quarter; bounds what one request reads
EARLIEST = dt.date(2000, 1, 1)  # no data is older
SQL = sql_files.load(__file__)
FIGURES = ("paid", "earned", "refunded", "failed", "open", "chats", "unserved")


class By(enum.StrEnum):
    """What the figures are counted by."""

    DAY = "day"
    MODE = "mode"
    TIER = "tier"
    CHANNEL = "channel"
    CAUSE = "cause"


KEYS = {
    By.DAY: "width_bucket(m.at, $3::timestamptz[])::text",
    By.MODE: "p.mode",
    By.TIER: "p.mode || ' ' || p.duration_minutes",
    By.CHANNEL: "p.payment_channel",
    By.CAUSE: "f.cause_tag",
}
SUMS = ",\n  ".join(
    f"coalesce(sum(m.value) FILTER (WHERE m.figure = '{name}'), 0)::bigint AS {name}" for name in FIGURES
)


def statement(by: By) -> str:
    """Return the statement that sums the movements by a key."""
    return f"""WITH movements AS (
{SQL["movements"]}
)

SELECT
  {KEYS[by]} AS key,
  {SUMS}
FROM movements AS m
LEFT JOIN payment_requests AS p ON p.id = m.payment_request_id
LEFT JOIN pairing_failures AS f ON f.payment_request_id = m.payment_request_id AND f.superseded_at IS NULL
GROUP BY 1
ORDER BY 1"""


STATEMENTS = {by: statement(by) for by in By}


@attrs.frozen(kw_only=True)
class FigureRow:
    """The figures of one day, mode, tier, channel or cause. Amounts are in Rupiah.

    `key` is the day such as `2026-11-28`, the mode, the tier as its mode and minutes such as `chat 12`, the gateway's
    word for the channel, or the cause of the payment's failure; null: it has none. `paid` is what was received,
    `earned` what bought chats, and `refunded` what went back; each counts on its own day. `failed` is the money of
    failed pairings on the day they failed, without those that customers tried again, and `open` the part that waits for
    an operator. `chats` began on that day, and so did the searches that ended without a mitra (`unserved`; not those
    for one mitra).
    """

    key: str | None
    paid: int
    earned: int
    refunded: int
    failed: int
    open: int
    chats: int
    unserved: int


@attrs.frozen(kw_only=True)
class Figures:
    """The figures from `first_day` to `last_day`, both included, which are days of `time_zone`.

    By day, every day is listed, the oldest first. `replica_lag_seconds` is the most that they are behind the primary;
    null if they were read from it.
    """

    items: list[FigureRow]
    time_zone: str
    first_day: dt.date
    last_day: dt.date
    replica_lag_seconds: float | None


def starts(first: dt.date, last: dt.date, zone: dt.tzinfo) -> list[dt.datetime]:
    """Return the moments at which the days from `first` to `last` begin in a zone, and the one at which `last` ends."""
    days = (first + n * DAY for n in range((last - first).days + 2))
    return [dt.datetime.combine(day, dt.time(), zone).astimezone(dt.UTC) for day in days]


def range_of(first: dt.date | None, last: dt.date | None, *, today: dt.date) -> tuple[dt.date, dt.date]:
    """Return the first and last day of the figures; by default the last 30 days. Days to come are left out.

    Raises ValidationFailed if the range is empty or longer than MOST.
    """
    end = min(last or today, today)
    begin = first or max(end, EARLIEST + USUAL * DAY) - (USUAL - 1) * DAY
    if begin < EARLIEST:
        raise ValidationFailed.of("from", Text(en=f"must not be before {EARLIEST}", id=f"paling awal {EARLIEST}"))
    if begin > end:
        raise ValidationFailed.of(
            "to",
            Text(en="must not be before `from`, which must not be a day to come", id="paling awal sama dengan `from`"),
        )
    if (end - begin).days >= MOST:
        raise ValidationFailed.of(
            "from", Text(en=f"must be at most {MOST} days before `to`", id=f"paling lama {MOST} hari sebelum `to`")
        )
    return begin, end


async def figures(runtime: Runtime, *, first: dt.date | None, last: dt.date | None, by: By) -> Figures:
    """Return the figures of some days. Raises ValidationFailed if the range is empty or too long."""
    name: str = runtime.config.values["business_time_zone"]
    zone = zoneinfo.ZoneInfo(name)
    begin, end = range_of(first, last, today=runtime.now().astimezone(zone).date())
    *days, until = starts(begin, end, zone)
    report = await runtime.reports.fetch(STATEMENTS[by], days[0], until, *([days] if by is By.DAY else []))
    rows = [FigureRow(**dict(row)) for row in report.rows]
    return Figures(
        items=_by_day(rows, begin, end) if by is By.DAY else rows,
        replica_lag_seconds=rounded_lag(report.lag_s),
        time_zone=name,
        first_day=begin,
        last_day=end,
    )


def _by_day(rows: list[FigureRow], first: dt.date, last: dt.date) -> list[FigureRow]:
    """Return a row for every day, from rows whose key is the place of their day, counted from 1."""
    none = FigureRow(key=None, **dict.fromkeys(FIGURES, 0))
    found = {row.key: row for row in rows}
    return [
        attrs.evolve(found.get(str(n + 1), none), key=(first + n * DAY).isoformat())
        for n in range((last - first).days + 1)
    ]
