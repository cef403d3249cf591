"""What a rule of the books is."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import attrs

from core.runtime import Runtime


@attrs.frozen(kw_only=True)
class Rule:
    """Something that rows can show to be broken, and that no constraint makes impossible at every moment.

    `sql` finds what breaks it, as (id, detail); it reads each table once, whole, because the audit runs over millions of
    rows. `proves` names what the rule checks: invariants of docs/invariants.md such as I3, or sections of the docs.
    """

    name: str
    proves: str
    sql: str
    # For what must have happened by now: the statement's arguments; None when the rule does not apply to this service.
    due: Callable[[Runtime, dt.datetime], tuple[Any, ...] | None] | None = None
