"""The form of an audit rule."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import attrs

from core.runtime import Runtime


@attrs.frozen(kw_only=True)
class Rule:
    """A rule that rows can break and no constraint enforces at every moment.

    `sql` returns the rows that break it, as (id, detail). It reads each whole table once, because the audit runs over
    millions of rows. `proves` names what the rule checks: invariants of docs/invariants.md such as I3, or sections of
    the docs.
    """

    name: str
    proves: str
    sql: str
    # For rules about overdue work: returns the statement's arguments, or None if the rule does not apply to this
    # service.
    due: Callable[[Runtime, dt.datetime], tuple[Any, ...] | None] | None = None
