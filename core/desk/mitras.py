"""Reads of mitras, as operators see them."""

import datetime as dt

import attrs

from core.base.errors import NotFound
from core.base.field_types import MitraId
from core.base.pages import Items, Page, cut
from core.base.phones import like_numbers
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors
from core.storage import sql_files
from core.storage.conditions import part_of
from core.storage.records import many

SQL = sql_files.load(__file__)
ONE = f"""{SQL["mitras"]}
WHERE m.id = $1"""
# $1 is a pattern of the name and $7 has patterns of the phone; $2 is whether the mitra is active, $3 whether online.
PAGE = f"""{SQL["mitras"]}
WHERE
  ($1::text IS NULL OR folded(m.display_name) LIKE folded($1) OR m.phone LIKE ANY ($7::text[]))
  AND ($2::bool IS NULL OR m.is_active = $2)
  AND ($3::bool IS NULL OR coalesce(o.is_online, false) = $3)
  AND ($4::timestamptz IS NULL OR (m.created_at, m.id) < ($4, $5::uuid))
ORDER BY m.created_at DESC, m.id DESC
LIMIT $6"""


@attrs.frozen(kw_only=True)
class MitraForOperators:
    """A mitra, as operators see them.

    `reachable_at` is when the mitra's last heartbeat within the time of a presence check came; null before the first
    one.
    """

    id: MitraId
    phone: str
    display_name: str
    is_active: bool
    is_online: bool
    last_heartbeat_at: dt.datetime | None
    reachable_at: dt.datetime | None
    active_session_count: int
    created_at: dt.datetime


async def mitra_for_operator(runtime: Runtime, mitra_id: str) -> MitraForOperators:
    """Return a mitra for an operator."""
    with translate_db_errors():
        rows = many(MitraForOperators, await runtime.db.fetch(ONE, mitra_id))
    if not rows:
        raise NotFound
    return rows[0]


async def mitras_for_operator(
    runtime: Runtime, page: Page, *, q: str | None, is_active: bool | None, is_online: bool | None
) -> Items:
    """List mitras, newest first. `q` is a part of the name or phone."""
    with translate_db_errors():
        rows = await runtime.db.fetch(
            PAGE,
            part_of(q),
            is_active,
            is_online,
            page.before_at,
            page.before_id,
            page.limit + 1,
            [part_of(number) for number in like_numbers(q)],
        )
    return cut(many(MitraForOperators, rows), page, at="created_at")
