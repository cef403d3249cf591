"""The events are declared once."""

import importlib
import pkgutil

import core
from core.deliveries.events import declared
from core.deliveries.pushes.rules import Words
from realtime import server_frames


def test_sockets_know_the_events_of_every_module() -> None:
    known = {frame.event for frame in server_frames.EVENT_FRAMES}
    for module in pkgutil.walk_packages(core.__path__, "core."):
        if module.name.endswith(".events"):
            importlib.import_module(module.name)
    assert known == set(declared())
    assert {event.__module__ for event in known} == {module.__name__ for module in server_frames.DECLARED_IN}


def test_advice_and_reasons_are_sentences() -> None:
    for event in declared():
        reasons = [event.push] if isinstance(event.push, str) else event.push.quiet.values()
        assert all(text.endswith(".") for text in (event.app, *reasons)), event


def test_words_name_fields_of_their_event() -> None:
    for event in declared():
        if isinstance(words := event.push, Words):
            named = {field for field, _ in words.quiet} | ({words.answer_by_in} - {None})
            assert named <= set(event.__struct_fields__), event
