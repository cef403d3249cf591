"""What a push contains and which events are never pushed; pure functions."""

import datetime as dt
import json
from typing import Any

import pytest

from core.base.clock import UTC, as_text
from core.base.languages import Language
from core.deliveries.events import words_of
from core.deliveries.pushes.rules import KEEP, Action, content_of, is_silent, presence_check
from realtime.server_frames import EVENT_FRAMES
from tests.each import for_each
from tests.stack import new_id

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=UTC)
PRIVATE = {
    "content": "rahasia besar", "phone": "+6281234567890", "email": "dewi@example.test", "display_name": "Dewi Lestari",
    "customer_display_name": "Dewi Lestari", "topics": ["rahasia besar"],
}  # fmt: skip
EVENTS = [frame.event.type_name() for frame in EVENT_FRAMES]
WORDS = {event: words for event in EVENTS if (words := words_of(event)) is not None}
ANSWERED = {event: words.answer_by_in for event, words in WORDS.items() if words.answer_by_in is not None}


def content(event: str, *, session_id: str | None = None, scale: float = 1, **payload: Any) -> Any:
    """Return the content of a push about an event whose payload has every private field."""
    payload = {ANSWERED.get(event, "message" if event == "message" else "session"): {}, **payload}
    nested = {name: {**PRIVATE, **value} for name, value in payload.items() if isinstance(value, dict)}
    return content_of(
        WORDS[event],
        event=event,
        event_id=new_id(),
        session_id=session_id,
        payload={"type": event, **PRIVATE, **payload, **nested},
        now=NOW,
        scale=scale,
    )


def test_each_action_has_a_push():
    assert {words.action for words in WORDS.values()} == set(Action) - {Action.PRESENCE_CHECK}


def test_presence_check_is_silent_in_each_language():
    made = presence_check(check_id=new_id(), ttl=dt.timedelta(seconds=6.2))
    for language in Language:
        said = made.said_in(language)
        assert set(said) == {"action", "event", "event_id", "lifetime_seconds"}
        assert said["lifetime_seconds"] == "7"
        assert is_silent(said)
    assert not is_silent(content("chat_request").said_in(Language.ENGLISH))


@pytest.mark.parametrize("event", ["session_warning", "session_topic_updated", "message_status", "typing", "auth_ok"])
def test_events_with_a_reason_and_other_frames_have_no_words(event: str):
    assert words_of(event) is None


@pytest.mark.parametrize(
    ("status", "pushed"), [("searching", False), ("paired", False), ("failed", True), ("cancelled", True)]
)
def test_search_status_is_pushed_only_when_it_fails(status: str, pushed: bool):
    assert (content("pairing_status", status=status) is not None) is pushed


@for_each("event", WORDS)
@for_each("with_payment", [False, True])
def test_push_contains_its_target_and_nothing_private(event: str, with_payment: bool):
    session_id, payment_id = new_id(), new_id()
    more = {"payment_request_id": payment_id} if with_payment else {}
    found = content(event, session_id=session_id, **more)
    keys = {"action", "event", "event_id", "title", "body", "session_id"} | set(more)
    for language in Language:
        said = found.said_in(language)
        assert set(said) == keys
        assert all(type(value) is str and value for value in said.values())
        assert (said["action"], said["event"]) == (WORDS[event].action, event)
        assert said["session_id"] == session_id
        text = json.dumps(said)
        for private in ("rahasia", "628123", "dewi", "Dewi"):
            assert private not in text
        assert len(text) < 1_000


@for_each("event", WORDS)
def test_push_of_each_event_has_its_own_text_in_both_languages(event: str):
    words = WORDS[event]
    texts = [text.said_in(language) for text in (words.title, words.body) for language in Language]
    assert all(texts)
    assert len(set(texts)) == 4


@for_each("event", WORDS)
def test_push_data_uses_no_reserved_keys(event: str):
    for key in content(event, session_id=new_id()).said_in(Language.ENGLISH):
        assert key not in ("from", "message_type", "notification")
        assert not key.startswith(("google", "gcm"))


def test_push_of_a_payment_update_names_its_payment_request():
    payment_id = new_id()
    assert (
        content("payment_updated", payment_request={"payment_request_id": payment_id}).data["payment_request_id"]
        == payment_id
    )


def test_push_without_a_session_has_no_session_id():
    assert "session_id" not in content("pairing_status", status="failed").data


@for_each(("event", "holder"), sorted(ANSWERED.items()))
@for_each("scale", [1, 60, 0.5])
@for_each("seconds", [20.0, 0.25, 1_800.0])
def test_push_with_an_answer_time_is_urgent_and_expires_with_it(event: str, holder: str, scale: float, seconds: float):
    found = content(event, scale=scale, **{holder: {"answer_by": as_text(NOW + dt.timedelta(seconds=seconds))}})
    assert found.urgent
    assert found.ttl == min(dt.timedelta(seconds=seconds / scale), KEEP)


@pytest.mark.parametrize(("event", "holder"), sorted(ANSWERED.items()))
def test_push_after_its_answer_time_has_no_negative_ttl(event: str, holder: str):
    found = content(event, **{holder: {"answer_by": as_text(NOW - dt.timedelta(seconds=5))}})
    assert found.ttl == dt.timedelta()


@for_each("event", sorted(WORDS.keys() - ANSWERED))
def test_push_without_an_answer_time_is_not_urgent(event: str):
    found = content(event, extension={"answer_by": as_text(NOW + dt.timedelta(seconds=5))})
    assert (found.urgent, found.ttl) == (False, KEEP)
