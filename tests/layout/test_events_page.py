"""The page of events is complete and current: each event has words for its push, or the reason why it has none."""

from core.deliveries.pushes.rules import NOT_PUSHED, WORDS
from realtime import asyncapi
from tools.pages import events_page


def test_page_equals_the_code() -> None:
    assert events_page.PAGE.read_text() == events_page.page(), "run `make pages`"


def test_each_event_has_a_push_or_a_reason_for_none() -> None:
    events = {asyncapi.type_of(frame) for _, frame, _ in events_page.events()}
    assert events == WORDS.keys() | NOT_PUSHED.keys()
    assert all(why.endswith(".") for why in NOT_PUSHED.values())


def test_each_event_has_advice_for_apps() -> None:
    assert {asyncapi.type_of(frame) for _, frame, _ in events_page.events()} == events_page.APP.keys()
    assert all(then.endswith(".") for then in events_page.APP.values())


def test_each_event_has_recipients_and_an_acknowledgement_rule() -> None:
    for _, frame, recipients in events_page.events():
        assert recipients
        assert asyncapi.acknowledged_by(frame)
