"""The stages of an event on a device, and what bounds the trail of an event (docs/fairness.md#delivery-trail)."""

import datetime as dt
import enum

import attrs

KEPT = dt.timedelta(days=90)  # real time, like the months of event ids
MOST = 60  # rows of an event: twelve devices with all stages


class TrailStage(enum.StrEnum):
    """What happened to an event on a device."""

    SENT = "sent"  # written to the socket
    ACKNOWLEDGED = "acknowledged"  # the app has it
    PUSHED = "pushed"  # the push provider has taken it
    OPENED = "opened"  # the app says that it was opened by the push
    GIVEN_UP = "given_up"  # no further attempt


@attrs.frozen(kw_only=True)
class TrailMark:
    """A stage of an event on a device, at a service time."""

    event_id: str
    auth_session_id: str
    stage: TrailStage
    at: dt.datetime
