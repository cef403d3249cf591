"""Read what a simulation replays: past searches, mitras' shifts, and how requests were answered."""

import datetime as dt

import attrs

from core.storage.reports import Reports


@attrs.frozen(kw_only=True)
class History:
    """What was read. Everything in it is for `forecast`; other modules read `since`, `until` and `values` only.

    `values`: the present values of the rows that can be tried.
    """

    since: dt.datetime
    until: dt.datetime
    values: dict[str, int]


async def read_history(reports: Reports, since: dt.datetime, until: dt.datetime) -> History:
    """Read the searches from `since` to `until` in statements of a day each, from the replica if there is one.

    It never writes. Raises Unavailable.
    """
    raise NotImplementedError
