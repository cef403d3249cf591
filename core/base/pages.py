"""Cursor pagination of lists that are sorted by (time, id), newest first (docs/protocol.md#lists)."""

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
    """The requested page: at most `limit` items older than (`before_at`, `before_id`); None: the first page."""

    limit: int = 50
    before_at: dt.datetime | None = None
    before_id: str | None = None


@attrs.frozen(kw_only=True)
class Items(Generic[T]):
    """One page of a list. `next_cursor` is null on the last page."""

    items: list[T]
    next_cursor: str | None = None


@attrs.frozen(kw_only=True)
class ReportItems(Items[T]):
    """One page of a list for operators.

    `replica_lag_seconds` is the most that its data is behind the primary; null if it was read from the primary.
    """

    replica_lag_seconds: float | None = None


def read_page(cursor: str | None, limit: int | None) -> Page:
    """Parse the query parameters `cursor` and `limit`; the default limit is 50.

    Raises ValidationFailed if the limit is not 1 to 200 or the cursor can't be parsed.
    """
    size = 50 if limit is None else limit
    if not 1 <= size <= 200:
        raise ValidationFailed.of("limit", field_messages.between(1, 200))
    if cursor is None:
        return Page(limit=size)
    try:
        at_text, _, id_text = base64.urlsafe_b64decode(cursor.encode()).decode().partition("|")
        at = dt.datetime.fromisoformat(at_text)
        tiebreak = parse_id(id_text)
        if tiebreak is None or at.tzinfo is None:
            raise ValueError(cursor)
        at = at.astimezone(dt.UTC)
    except (ValueError, UnicodeError, OverflowError) as error:
        raise ValidationFailed.of(
            "cursor", Text(en="must be a cursor returned by this list", id="harus berupa kursor dari daftar ini")
        ) from error
    return Page(limit=size, before_at=at, before_id=tiebreak)


def write_cursor(at: dt.datetime, tiebreak: str) -> str:
    """Return the cursor that continues after the item with this time and id."""
    return base64.urlsafe_b64encode(f"{at.isoformat()}|{tiebreak}".encode()).decode()


def as_report(page: Items[Any], *, lag_s: float | None) -> ReportItems[Any]:
    """Return a page with the replica's lag in seconds; None: the page is from the primary."""
    return ReportItems(items=page.items, next_cursor=page.next_cursor, replica_lag_seconds=rounded_lag(lag_s))


def rounded_lag(lag_s: float | None) -> float | None:
    """Return a replica's lag in seconds as answers show it."""
    return None if lag_s is None else round(lag_s, 1)


def cut(rows: list[Any], page: Page, *, at: str, tiebreak: str = "id") -> Items[Any]:
    """Make a page of up to `limit + 1` rows; the extra row shows that another page follows.

    `at` and `tiebreak` name the attributes that the list is sorted by.
    """
    more = len(rows) > page.limit
    kept = rows[: page.limit]
    last = kept[-1] if more else None
    cursor = write_cursor(getattr(last, at), getattr(last, tiebreak)) if last is not None else None
    return Items(items=kept, next_cursor=cursor)
