"""Lists as CSV files: cells that no spreadsheet calculates, masks, and the most that a file has."""

import csv
import io
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from litestar import get

from api.apps import INTERNAL
from api.auth import operators
from api.documents.openapi import document
from api.edge.list_files import wants_file
from api.route_signatures import columns_of
from core.base.errors import ValidationFailed
from core.base.field_types import Person
from core.base.pages import Items
from core.desk import list_files
from core.desk.list_files import FORMULAS, ListFile, cell, masked
from tests.each import for_each

# Routes whose answer has lists, but is not one.
NO_LISTS = {
    "/internal/auth/me",
    "/internal/overview",
    "/internal/health",
    "/internal/search",
    "/internal/ledger/audit",
    "/internal/pricing/promotions/first-session",
}


def read(file: ListFile) -> list[list[str]]:
    """Return the cells of a file."""
    return list(csv.reader(io.StringIO(b"".join(file.parts()).decode(), newline="")))


def test_each_answer_with_a_list_is_a_file_too() -> None:
    found = document(INTERNAL, listener="internal")
    schemas = found["components"]["schemas"]
    plain = set()
    for path, methods in found["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        name = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
        fields = schemas.get(name, {}).get("properties", {})
        if "items" in fields:
            assert "text/csv" in content, path
        elif fields and any(one.get("type") == "array" for one in fields.values()) and "{" not in path:
            plain.add(path)
    assert plain <= NO_LISTS


@attrs.frozen(kw_only=True)
class Row:
    """A row of a list."""

    id: str
    mitra: Person | None
    tags: list[str]


@get("/internal/rows", **operators(None))
async def rows() -> Items[Row]:
    """List rows."""
    return Items(items=[])


def test_columns_are_the_fields_and_those_of_their_objects() -> None:
    assert columns_of(rows) == ["id", "mitra.id", "mitra.display_name", "tags"]
    file = ListFile(columns_of(rows) or [], with_contacts=True)
    file.add([{"id": "1", "mitra": None, "tags": ["a", "é"]}], more=False)
    assert read(file) == [["id", "mitra.id", "mitra.display_name", "tags"], ["1", "", "", '["a", "é"]']]


@for_each(
    ("value", "shown"),
    [
        ("=1+1", "'=1+1"), ("+62812", "'+62812"), ("-1", "'-1"), ("@sum", "'@sum"), ("\t=1", "'\t=1"), ("\r=1", "'\r=1"),
        ("a=1", "a=1"), (" =1", " =1"), ("", ""), (-5000, "-5000"), (1.5, "1.5"), (True, "true"), (None, ""),
        ({"a": "=1"}, '{"a": "=1"}'), ([], "[]"),
    ],
    ids=repr,
)  # fmt: skip
def test_text_that_begins_like_a_formula_gets_an_apostrophe(value: Any, shown: str) -> None:
    assert cell(value) == shown


@given(st.lists(st.lists(st.one_of(st.text(), st.integers(), st.none()), min_size=2, max_size=2), max_size=5))
def test_any_text_survives_a_file_and_is_never_a_formula(values: list[list[Any]]) -> None:
    file = ListFile(["a", "b"], with_contacts=True)
    file.add([{"a": a, "b": b} for a, b in values], more=False)
    header, *lines = read(file)
    assert header == ["a", "b"]
    for line, row in zip(lines, values, strict=True):
        for shown, value in zip(line, row, strict=True):
            if isinstance(value, str):
                assert shown.removeprefix("'") == value.removeprefix("'")
                assert not shown.startswith(FORMULAS)
            else:
                assert shown == ("" if value is None else str(value))


def test_contacts_are_masked_wherever_they_are() -> None:
    row = {"phone": "+6281234567890", "after": {"email": "dewi@example.test", "note": "+628"}, "email": None}
    file = ListFile(["phone", "email", "after"], with_contacts=False)
    file.add([row], more=False)
    assert read(file)[1] == ["'+628****90", "", '{"email": "d***@example.test", "note": "+628"}']
    assert masked(masked(row)) == masked(row)


def test_file_has_at_most_its_rows_and_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_files, "MOST_ROWS", 4)
    page = [{"a": "x" * 50}] * 2
    file = ListFile(["a"], with_contacts=True)
    file.add(page, more=True)
    file.add(page, more=False)
    assert file.rows == 4
    file = ListFile(["a"], with_contacts=True)
    file.add(page, more=True)
    with pytest.raises(ValidationFailed):
        file.add(page, more=True)
    with pytest.raises(ValidationFailed):
        ListFile(["a"], with_contacts=True).add(page * 3, more=False)
    monkeypatch.setattr(list_files, "MOST_BYTES", 100)
    file = ListFile(["a"], with_contacts=True)
    file.add(page, more=True)
    with pytest.raises(ValidationFailed):
        file.add(page, more=False)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("text/csv", True), ("Text/CSV; charset=utf-8", True), ("text/csv, */*;q=0.1", True),
        ("application/json", False), ("*/*", False), ("", False), ("application/json, text/csv;q=0.5", False),
    ],
)  # fmt: skip
def test_file_is_asked_for_by_name(accept: str, wanted: bool) -> None:
    assert wants_file(accept) is wanted
