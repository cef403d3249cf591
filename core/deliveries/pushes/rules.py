"""What a push carries: what the app opens, and nothing private (docs/protocol.md#pushes).

Each event declares the words of its push, or why it has none (core/deliveries/events.py).
"""

import datetime as dt
import enum
import math
from collections.abc import Mapping
from typing import Any

import attrs

from core.base.languages import Language, Text

KEEP = dt.timedelta(hours=1)  # real time; how long a push about something without an answer time is useful


class Action(enum.StrEnum):
    """What the app opens when the user taps the push, or does when a silent push arrives."""

    OPEN_ACCEPT = "open_accept"
    OPEN_SESSION = "open_session"
    OPEN_CLOSURE = "open_closure"
    OPEN_PAIRING = "open_pairing"
    OPEN_MESSAGE = "open_message"
    OPEN_PAYMENT = "open_payment"
    OPEN_STATUS = "open_status"
    OPEN_ACCOUNT = "open_account"
    PRESENCE_CHECK = "presence_check"  # opens nothing: the app sends a heartbeat


@attrs.frozen(kw_only=True)
class Words:
    """The text of an event's push, what the app opens, and when the event is not pushed.

    `answer_by_in` is the field of the event whose `answer_by` is the end of the push, which is urgent then. `quiet`: an
    event with this value in this field is not pushed -> why not.
    """

    action: Action
    title: Text
    body: Text
    answer_by_in: str | None = None
    quiet: Mapping[tuple[str, str], str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Content:
    """The content of a push, in all languages. `urgent`: a person waits for an answer. `ttl` is in real time.

    A push without words is silent: it is for the app, not for the user.
    """

    data: dict[str, str]
    words: Words | None
    urgent: bool
    ttl: dt.timedelta

    def said_in(self, language: Language) -> dict[str, str]:
        """Return the data of the push, with its title and body in one language if it has them."""
        if self.words is None:
            return self.data
        return {
            **self.data,
            "title": self.words.title.said_in(language),
            "body": self.words.body.said_in(language),
        }


def presence_check(*, check_id: str, ttl: dt.timedelta) -> Content:
    """Return the silent push that asks a mitra's phone for a heartbeat. `ttl` is in real time.

    The app tries for `lifetime_seconds`, from the push's arrival on.
    """
    action = Action.PRESENCE_CHECK.value
    seconds = str(math.ceil(ttl.total_seconds()))
    data = {"action": action, "event": action, "event_id": check_id, "lifetime_seconds": seconds}
    return Content(data=data, words=None, urgent=False, ttl=ttl)


def is_silent(content: Mapping[str, str]) -> bool:
    """Return whether a push, as it is sent, shows nothing to the user."""
    return "title" not in content


def content_of(
    words: Words,
    *,
    event: str,
    event_id: str,
    session_id: str | None,
    payload: dict[str, Any],
    now: dt.datetime,
    scale: float,
) -> Content | None:
    """Return what to push for an event; None if it is not pushed.

    `now` and the answer time in the payload are service time. The push is useless after the answer time, so its `ttl`
    ends then.
    """
    if any(payload.get(field) == value for field, value in words.quiet):
        return None
    data = {"action": words.action.value, "event": event, "event_id": event_id}
    if session_id is not None:
        data["session_id"] = session_id
    payment_request_id = payload.get("payment_request", payload).get("payment_request_id")
    if payment_request_id is not None:
        data["payment_request_id"] = payment_request_id
    answer_by = None if words.answer_by_in is None else payload.get(words.answer_by_in, {}).get("answer_by")
    ttl = KEEP
    if answer_by is not None:
        left = (dt.datetime.fromisoformat(answer_by) - now) / scale
        ttl = max(dt.timedelta(), min(KEEP, left))
    return Content(data=data, words=words, urgent=answer_by is not None, ttl=ttl)
