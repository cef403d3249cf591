"""The range of time of a report by hour or day: its default and its bounds."""

import datetime as dt

from core.base.errors import ValidationFailed
from core.base.languages import Text

USUAL = dt.timedelta(days=28)  # the default range: four of each weekday
MOST = dt.timedelta(days=92)  # a quarter; bounds what one request reads
EARLIEST = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)  # no data is older; keeps a range from beginning before the year 1


def report_range(
    since: dt.datetime | None, until: dt.datetime | None, *, now: dt.datetime
) -> tuple[dt.datetime, dt.datetime]:
    """Return the begin and end of a report; by default the last 28 days.

    Raises ValidationFailed if the range is empty or longer than MOST.
    """
    end = until or now
    begin = since or max(end, EARLIEST) - USUAL
    if begin >= end:
        raise ValidationFailed.of("to", Text(en="must be after `from`", id="harus setelah `from`"))
    if end - begin > MOST:
        raise ValidationFailed.of(
            "from", Text(en="must be at most 92 days before `to`", id="paling lama 92 hari sebelum `to`")
        )
    return begin, end
