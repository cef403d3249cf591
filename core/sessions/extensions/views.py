"""An extension as both parties see it."""

import attrs

from core.base.field_types import Count, ExtensionId, Positive, SessionId, Time
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.extensions.store import Extension
from core.sessions.sensitivity import Sensitivity


@attrs.frozen(kw_only=True)
class ExtensionView:
    """More minutes for a session, paid before the mitra is asked.

    If the mitra has not answered by `answer_by`, the service does.
    """

    id: ExtensionId
    session_id: SessionId
    requested_duration_minutes: Positive
    requested_price: Count
    status: ExtensionStatus
    answer_by: Time
    topic_sensitivity: Sensitivity


def view_of(extension: Extension, *, topic_sensitivity: Sensitivity) -> ExtensionView:
    """Return the view of an extension, with the present topic sensitivity of its session."""
    return ExtensionView(
        id=extension.id,
        session_id=extension.session_id,
        requested_duration_minutes=extension.requested_duration_minutes,
        requested_price=extension.requested_price,
        status=extension.status,
        answer_by=extension.answer_by,
        topic_sensitivity=topic_sensitivity,
    )
