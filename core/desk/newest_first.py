"""Pages of lists over partitioned tables: a page reads the newest months, and older ones only until it is full."""

import datetime as dt
from collections.abc import Iterator

from core.base.id_ranges import EPOCH
from core.base.pages import Page

WINDOWS = (dt.timedelta(days=31), dt.timedelta(days=366))


def end_of(page: Page, until: dt.datetime | None) -> dt.datetime | None:
    """Return the time that all rows of a page are before; None if there is none."""
    return min((moment for moment in (page.before_at, until) if moment is not None), default=None)


def begins(
    page: Page, *, since: dt.datetime | None, until: dt.datetime | None, now: dt.datetime
) -> Iterator[dt.datetime | None]:
    """Yield from when on to read the rows of a page, in the order of the attempts; None: from the first row on.

    The rows of a list that is sorted by time, and read from one of these times on, begin with those of the whole list.
    So an attempt that finds more than a page is right, and so is the last one.
    """
    end = max(EPOCH, min(end_of(page, until) or now, now))
    for window in WINDOWS:
        begin = end - window
        if since is not None and begin <= since:
            break
        yield begin
    yield since
