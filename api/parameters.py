"""Read ids, words and times from the path and the query of a request."""

import datetime as dt
import enum
import re

from core.base import field_messages
from core.base.errors import NotFound, ValidationFailed
from core.base.field_types import Id
from core.base.ids import parse_id


def path_id(value: str) -> Id:
    """Return the canonical id of a path parameter.

    Raises NotFound if it is not a UUID, because no object can have such an id.
    """
    found = parse_id(value)
    if found is None:
        raise NotFound
    return found


def query_id(name: str, value: str | None) -> Id | None:
    """Return the canonical id of a query parameter; None if it is absent.

    Raises ValidationFailed if it is not a UUID.
    """
    if value is None:
        return None
    found = parse_id(value)
    if found is None:
        raise ValidationFailed.of(name, field_messages.UUID)
    return found


def query_choice(name: str, value: str | None, options: type[enum.StrEnum]) -> str | None:
    """Return the word of a query parameter; None if it is absent.

    Raises ValidationFailed if it is not one of the options.
    """
    if value is not None and value not in set(options):
        raise ValidationFailed.of(name, field_messages.one_of(options))
    return value


def query_time(name: str, value: str | None) -> dt.datetime | None:
    """Return the time of a query parameter, in UTC; None if it is absent.

    Raises ValidationFailed if it is not ISO 8601 with a time zone.
    """
    if value is None:
        return None
    try:
        # An unescaped "+" in a query is decoded as a space.
        at = dt.datetime.fromisoformat(re.sub(r" (\d\d:\d\d)$", r"+\1", value))
        if at.tzinfo is None:
            raise ValidationFailed.of(name, field_messages.TIME)
        return at.astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        raise ValidationFailed.of(name, field_messages.TIME) from error
