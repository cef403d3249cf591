"""The blocks that a customer or a mitra has made, as they see them."""

import datetime as dt

import attrs

from core.base.actor import Actor, UserType
from core.base.field_types import SessionId
from core.base.pages import Items, Page, cut
from core.storage import sql_files
from core.storage.records import many
from core.storage.transaction import Reader

SQL = sql_files.load(__file__)
PAGE = """{of_side}
  AND ($2::timestamptz IS NULL OR (b.created_at, b.session_id) < ($2, $3::uuid))
ORDER BY b.created_at DESC, b.session_id DESC
LIMIT $4"""
PAGES = {
    UserType.CUSTOMER: PAGE.format(of_side=SQL["of_customer"]),
    UserType.MITRA: PAGE.format(of_side=SQL["of_mitra"]),
}


@attrs.frozen(kw_only=True)
class BlockView:
    """A block that the caller has made: in which session, the other party's name, and when."""

    session_id: SessionId
    display_name: str | None
    blocked_at: dt.datetime


async def own(reader: Reader, actor: Actor, page: Page) -> Items[BlockView]:
    """List the blocks that the caller has made, newest first."""
    rows = await reader.fetch(PAGES[actor.user_type], list(actor.ids), page.before_at, page.before_id, page.limit + 1)
    return cut(many(BlockView, rows), page, at="blocked_at", tiebreak="session_id")
