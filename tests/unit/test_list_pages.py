"""Pages of lists and their cursors."""

import base64
import datetime as dt
import uuid

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import ValidationFailed
from core.base.pages import Page, cut, read_page, write_cursor

MOMENTS = st.datetimes(min_value=dt.datetime(2000, 1, 1), max_value=dt.datetime(2100, 1, 1), timezones=st.just(dt.UTC))  # noqa: DTZ001
A_MOMENT = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
AN_ID = "01900000-0000-7000-8000-000000000000"


@attrs.frozen(kw_only=True)
class Row:
    id: str
    created_at: dt.datetime


def refused(cursor: str | None, limit: int | None) -> str:
    with pytest.raises(ValidationFailed) as caught:
        read_page(cursor, limit)
    assert caught.value.details is not None
    return caught.value.details["fields"][0]["field"]


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@given(MOMENTS, st.uuids())
def test_cursor_decodes_to_its_position(at: dt.datetime, place: uuid.UUID):
    assert read_page(write_cursor(at, str(place)), 7) == Page(limit=7, before_at=at, before_id=str(place))


def test_page_without_cursor_and_limit_has_the_first_50_items():
    assert read_page(None, None) == Page(limit=50, before_at=None, before_id=None)


@given(st.integers())
def test_page_limit_must_be_1_to_200(limit: int):
    if 1 <= limit <= 200:
        assert read_page(None, limit).limit == limit
    else:
        assert refused(None, limit) == "limit"


@given(st.text())
def test_any_text_as_a_cursor_is_accepted_or_refused(text: str):
    try:
        page = read_page(text, None)
    except ValidationFailed:
        return
    assert page.before_at is not None


@given(st.text())
def test_any_content_of_a_cursor_is_accepted_or_refused(text: str):
    assert refused(encoded(text), None) == "cursor"
    assert refused(encoded(f"{A_MOMENT.isoformat()}|{text}"), None) == "cursor"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "|",
        f"{A_MOMENT.isoformat()}",
        f"2026-11-21T06:00:00|{AN_ID}",
        f"yesterday|{AN_ID}",
        f"{A_MOMENT.isoformat()}|7",
    ],
)
def test_cursor_without_a_zoned_time_and_an_id_is_refused(content: str):
    assert refused(encoded(content), None) == "cursor"


def test_cursor_outside_the_range_of_utc_is_refused():
    """PostgreSQL can't store such a time: it would end in a 500."""
    assert refused(encoded(f"0001-01-01T00:00:00+14:00|{AN_ID}"), None) == "cursor"
    assert refused(encoded(f"9999-12-31T23:59:59-14:00|{AN_ID}"), None) == "cursor"


@given(st.integers(1, 10), st.integers(0, 11))
def test_page_has_a_next_cursor_only_if_there_are_more_items(limit: int, found: int):
    rows = [
        Row(id=str(uuid.UUID(int=n)), created_at=A_MOMENT - dt.timedelta(seconds=n))
        for n in range(min(found, limit + 1))
    ]
    items = cut(rows, Page(limit=limit), at="created_at")
    assert items.items == rows[:limit]
    if len(rows) <= limit:
        assert items.next_cursor is None
    else:
        last = rows[limit - 1]
        assert read_page(items.next_cursor, limit) == Page(limit=limit, before_at=last.created_at, before_id=last.id)


@given(st.integers(1, 7), st.integers(0, 30))
def test_paging_by_cursors_returns_every_item_once_in_order(limit: int, size: int):
    rows = [Row(id=str(uuid.UUID(int=99 - n)), created_at=A_MOMENT - dt.timedelta(seconds=n // 3)) for n in range(size)]
    met: list[Row] = []
    page = read_page(None, limit)
    while True:
        behind = [
            r for r in rows if page.before_at is None or (r.created_at, r.id) < (page.before_at, page.before_id or "")
        ]
        items = cut(behind[: limit + 1], page, at="created_at")
        met += items.items
        if items.next_cursor is None:
            break
        page = read_page(items.next_cursor, limit)
    assert met == rows
