"""Turn database rows into records. Ids become their canonical text, columns become attributes."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def plain(value: Any) -> Any:
    """Return a value; a UUID as its canonical text."""
    return str(value) if isinstance(value, uuid.UUID) else value


def as_dict(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as a dict of plain values."""
    return {name: plain(value) for name, value in row.items()}


def one(cls: type[T], row: Mapping[str, Any] | None) -> T | None:
    """Return the row as a record; None without a row."""
    return None if row is None else cls(**as_dict(row))


def many(cls: type[T], rows: Iterable[Mapping[str, Any]]) -> list[T]:
    """Return the rows as records."""
    return [cls(**as_dict(row)) for row in rows]
