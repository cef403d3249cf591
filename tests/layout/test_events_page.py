"""The events are declared once."""

import functools
import importlib
import pathlib
import pkgutil
import re

import msgspec

import core
from core.deliveries.events import declared
from core.deliveries.pushes.rules import Words
from realtime import server_frames
from tools.driving.sesi_client.events import ORDER_KEYS

ROOT = pathlib.Path(__file__).parents[2]


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


def test_clients_have_the_order_keys() -> None:
    source = (ROOT / "api/web/client/feed.js").read_text(encoding="utf-8")
    listed = dict(re.findall(r'^  (\w+): "([^"]+)",$', source, re.M))
    declared_keys = {event.type_name(): event.order_key for event in declared()}
    of_sessions = {name for name, key in declared_keys.items() if key == "session {session.id}"}
    assert listed == {name: key for name, key in declared_keys.items() if name not in of_sessions}
    assert listed == ORDER_KEYS


def test_order_keys_are_made_of_fields_of_their_events() -> None:
    for event in declared():
        example = msgspec.to_builtins(dict(event.example))
        for path in re.findall(r"{([\w.]+)}", event.order_key):
            value = functools.reduce(lambda found, name: found[name], path.split("."), example)
            assert isinstance(value, str), (event.type_name(), path)
