"""How long rows and texts are kept, by the rows of configuration (docs/operating.md#retention)."""

import datetime as dt

from core.config import store as config_store
from core.config.keys import KEYS
from core.runtime.container import Runtime

# A shorter retention deletes data, so it takes effect after this time: until then a mistake can be undone.
SHORTER_AFTER = dt.timedelta(days=1)


async def end_of(runtime: Runtime, row: str) -> dt.datetime | None:
    """Return the time before which the retention of a configuration row has ended; None if it never ends.

    It is the longest that the row has said within the last day. Raises Unavailable if the database does not answer.
    """
    since = runtime.now() - SHORTER_AFTER
    before = await config_store.values_before(runtime.db, row, since=since)
    days = [runtime.config.number(row), *(KEYS[row].default if value is None else value for value in before)]
    return None if 0 in days else runtime.now() - dt.timedelta(days=max(days))
