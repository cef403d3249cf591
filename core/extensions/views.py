"""An extension as both parties see it."""

import datetime as dt

import attrs

from core.extensions.store import Extension


@attrs.frozen(kw_only=True)
class ExtensionView:
    """More minutes for a session, paid before the mitra is asked."""

    id: str
    session_id: str
    requested_duration_minutes: int
    requested_price: int
    status: str
    answer_by: dt.datetime
    topic_sensitivity: str


def view_of(extension: Extension, *, topic_sensitivity: str) -> ExtensionView:
    """Return the view of an extension, with the present topic sensitivity of its session."""
    return ExtensionView(
        id=extension.id,
        session_id=extension.session_id,
        requested_duration_minutes=extension.requested_duration_minutes,
        requested_price=extension.requested_price,
        status=extension.status.value,
        answer_by=extension.answer_by,
        topic_sensitivity=topic_sensitivity,
    )
