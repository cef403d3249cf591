"""All erasures, for a list that is kept outside the backups (docs/privacy.md#backups)."""

from collections.abc import AsyncIterator

import attrs

from core.base.field_types import Id, Time
from core.erasures import store as erasures
from core.erasures.store import Erasure
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors

AT_ONCE = 1_000


@attrs.frozen(kw_only=True)
class ErasureEntry:
    """An erasure: ids and times only."""

    user_type: str
    user_id: Id
    requested_by: str
    began_at: Time
    completed_at: Time | None


async def all_erasures(runtime: Runtime) -> AsyncIterator[ErasureEntry]:
    """Yield all erasures, the oldest first."""
    after: Erasure | None = None
    while True:
        with translate_db_errors():
            found = await erasures.listed(runtime.db, after=after, limit=AT_ONCE)
        for one in found:
            yield ErasureEntry(**attrs.asdict(one, filter=lambda field, _: field.name != "id"))
        if len(found) < AT_ONCE:
            return
        after = found[-1]
