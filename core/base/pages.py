"""Cursors of lists that are sorted by (time, id), newest first (contract 2)."""

import base64
import datetime as dt
from typing import Any, Generic, TypeVar

import attrs

from core.base import field_messages
from core.base.errors import ValidationFailed
from core.base.ids import parse_id
from core.base.languages import Text

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Page:
    """What a client asks for: at most `limit` items after the cursor's place."""

    limit: int = 50
    before_at: dt.datetime | None = None
    before_id: str | None = None


@attrs.frozen(kw_only=True)
class Items(Generic[T]):
    """A page of answers. `next_cursor` is None on the last one."""

    items: list[T]
    next_cursor: str | None = None


def read_page(cursor: str | None, limit: int | None) -> Page:
    """Turn the query's `cursor` and `limit` into a page.

    Raises ValidationFailed for a limit outside 1 to 200 or a cursor that we never gave.
    """
    size = 50 if limit is None else limit
    if not 1 <= size <= 200:
        raise ValidationFailed.of("limit", field_messages.between(1, 200))
    if cursor is None:
        return Page(limit=size)
    try:
        at_text, _, id_text = base64.urlsafe_b64decode(cursor.encode()).decode().partition("|")
        at = dt.datetime.fromisoformat(at_text)
        place = parse_id(id_text)
        if place is None or at.tzinfo is None:
            raise ValueError(cursor)
        at = at.astimezone(dt.UTC)
    except (ValueError, UnicodeError, OverflowError) as error:
        raise ValidationFailed.of(
            "cursor", Text(en="must be a cursor returned by this list", id="harus berupa kursor dari daftar ini")
        ) from error
    return Page(limit=size, before_at=at, before_id=place)


def write_cursor(at: dt.datetime, place: str) -> str:
    """Return the cursor that continues behind the item at (at, place)."""
    return base64.urlsafe_b64encode(f"{at.isoformat()}|{place}".encode()).decode()


def cut(rows: list[Any], page: Page, *, at: str, place: str = "id") -> Items[Any]:
    """Make a page out of up to `limit + 1` rows; `at` and `place` name the attributes that the list is sorted by."""
    more = len(rows) > page.limit
    kept = rows[: page.limit]
    last = kept[-1] if more else None
    cursor = write_cursor(getattr(last, at), getattr(last, place)) if last is not None else None
    return Items(items=kept, next_cursor=cursor)
