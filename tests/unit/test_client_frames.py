"""Parsing of client frames: strict, refused with a named reason, never with another exception (docs/events.md)."""

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.languages import Language
from realtime import frames
from realtime.frames import TYPES, Fault, NotText, Unreadable
from tests.each import for_each

ID = "01900000-0000-7000-8000-000000000007"
GOOD: dict[str, dict[str, dict[str, Any]]] = {
    "chat": {
        "auth": {"token": "t"},
        "send_message": {"session_id": ID, "client_message_id": ID, "content": "hello"},
        "delivered": {"session_id": ID, "up_to": 3},
        "read": {"session_id": ID, "up_to": 3},
        "typing": {"session_id": ID, "is_typing": True},
        "sync": {"session_id": ID, "after": 0},
        "ack": {"event_id": ID},
        "ping": {},
    },
    "pairing": {
        "auth": {"token": "t"},
        "accept": {"session_id": ID},
        "reject": {"session_id": ID},
        "heartbeat": {},
        "ack": {"event_id": ID},
        "ping": {},
    },
}
EVERY = [pytest.param(path, kind, id=f"{path}-{kind}") for path, kinds in GOOD.items() for kind in kinds]
FIELDS = [
    pytest.param(path, kind, field, id=f"{path}-{kind}-{field}")
    for path, kinds in GOOD.items()
    for kind, fields in kinds.items()
    for field in fields
]
PATHS = st.sampled_from(["chat", "pairing"])
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=6,
)
NAMES = ["session_id", "client_message_id", "content", "message_type", "metadata", "up_to", "is_typing", "after", "event_id",
         "token", "ref"]  # fmt: skip
NEAR = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(sorted(TYPES["chat"] | TYPES["pairing"])),
    st.dictionaries(st.sampled_from(NAMES), st.one_of(st.just(ID), st.integers(-1, 5), JSON), max_size=6),
)


def read(path: str, text: str) -> Any:
    """Parse text as it arrives; it may contain half a character."""
    return frames.read(path, text.encode(errors="surrogatepass"))


def refused(path: str, frame: Any) -> Fault:
    with pytest.raises(Unreadable) as caught:
        read(path, frame if isinstance(frame, str) else json.dumps(frame))
    return caught.value.explain()


def attempt(path: str, text: str) -> None:
    refusal: Fault | None = None
    try:
        read(path, text)
    except Unreadable as error:
        refusal = error.explain()
    if refusal is not None:
        assert refusal.code in ("INVALID_FRAME", "UNKNOWN_TYPE", "VALIDATION_ERROR")
        assert (refusal.field is not None) is (refusal.code == "VALIDATION_ERROR")
        assert refusal.text.en
        assert refusal.ref is None or len(refusal.ref) <= len(text)


def test_frame_types_equal_the_documented_ones():
    assert {path: set(kinds) for path, kinds in GOOD.items()} == {path: set(kinds) for path, kinds in TYPES.items()}


@for_each(("path", "kind"), EVERY)
def test_every_frame_is_parsed_and_keeps_its_ref(path: str, kind: str):
    frame = read(path, json.dumps({"type": kind, **GOOD[path][kind], "ref": "r7"}))
    assert (frame.__struct_config__.tag, frame.ref) == (kind, "r7")
    for name, value in GOOD[path][kind].items():
        assert getattr(frame, name) == value
    assert read(path, json.dumps({"type": kind, **GOOD[path][kind]})).ref is None


@for_each(("path", "kind", "field"), FIELDS)
def test_frame_without_a_required_field_is_invalid_and_returns_its_ref(path: str, kind: str, field: str):
    fields = {name: value for name, value in GOOD[path][kind].items() if name != field}
    error = refused(path, {"type": kind, **fields, "ref": "r7"})
    assert (error.code, error.ref) == ("INVALID_FRAME", "r7")


@for_each(("path", "kind", "field"), FIELDS)
@for_each("value", [None, [], {}, 1.5, -1, "", 2**31], ids=repr)
def test_frame_with_a_field_of_the_wrong_type_is_invalid(path: str, kind: str, field: str, value: Any):
    if value == "" and field in ("token", "content"):
        return  # the message rules refuse empty texts
    error = refused(path, {"type": kind, **GOOD[path][kind], field: value, "ref": "r7"})
    assert (error.code, error.ref) == ("INVALID_FRAME", "r7")


@for_each(("path", "kind"), EVERY)
def test_frame_with_an_unknown_field_is_invalid(path: str, kind: str):
    assert refused(path, {"type": kind, **GOOD[path][kind], "extra": 1}).code == "INVALID_FRAME"


@pytest.mark.parametrize("kind", ["ack", "delivered"])
def test_acknowledgement_says_whether_it_was_shown_by_a_boolean(kind: str):
    frame = {"type": kind, **GOOD["chat"][kind]}
    assert read("chat", json.dumps(frame)).shown is True
    assert [read("chat", json.dumps({**frame, "shown": shown})).shown for shown in (True, False)] == [True, False]
    for shown in (None, "false", 0, []):
        assert refused("chat", {**frame, "shown": shown, "ref": "r7"}).code == "INVALID_FRAME"


@for_each(("path", "kind", "field"), [p for p in FIELDS if p.values[2].endswith("_id")])
@for_each("value", [ID + "\n", "\n" + ID, ID + " ", ID.replace("-", ""), ID[:-1], "x" + ID[1:]], ids=repr)
def test_frame_with_an_id_that_is_not_exactly_a_uuid_is_invalid(path: str, kind: str, field: str, value: str):
    """An id that PostgreSQL refuses would fail its whole batch."""
    assert refused(path, {"type": kind, **GOOD[path][kind], field: value}).code == "INVALID_FRAME"


def test_frame_with_an_id_in_either_case_is_accepted():
    upper = "ABCDEF00-0000-7000-8000-00000000000A"
    assert read("chat", json.dumps({"type": "ack", "event_id": upper})).event_id == upper


@pytest.mark.parametrize(("path", "other"), [("chat", "pairing"), ("pairing", "chat")])
def test_frame_type_of_the_other_path_is_unknown(path: str, other: str):
    for kind in TYPES[other] - TYPES[path]:
        error = refused(path, {"type": kind, **GOOD[other][kind], "ref": "r"})
        assert (error.code, error.ref) == ("UNKNOWN_TYPE", "r")


@given(PATHS, st.text())
def test_frame_with_an_undeclared_type_is_unknown(path: str, kind: str):
    if kind not in TYPES[path]:
        assert refused(path, {"type": kind}).code == "UNKNOWN_TYPE"


@pytest.mark.parametrize("kind", [None, 7, [], {}, True], ids=repr)
def test_frame_without_a_type_is_invalid(kind: Any):
    assert refused("chat", {"type": kind, "ref": "r"}).code == "INVALID_FRAME"
    assert refused("chat", {"ref": "r"}).ref == "r"


@for_each("text", ["", " ", "{", "[]", "null", "7", '"ping"', "{}", "nonsense", '{"type":', "\0", "[" * 5000])
def test_frame_that_is_not_an_object_is_invalid(text: str):
    assert refused("chat", text).code == "INVALID_FRAME"


@pytest.mark.parametrize(
    ("field", "value"),
    [("content", "hai \ud83d"), ("metadata", {"quote": "\ud83d"}), ("metadata", {"quote": [{"\udc00": 1}]}),
     ("session_id", "\ud800"), ("extra", "\ud800"), ("type", "\ud800")],
)  # fmt: skip
def test_lone_surrogate_is_a_validation_error_of_its_field_with_the_ref(field: str, value: Any):
    frame = {"type": "send_message", **GOOD["chat"]["send_message"], field: value, "ref": "r7"}
    error = refused("chat", frame)
    assert (error.code, error.ref, error.field) == ("VALIDATION_ERROR", "r7", field)
    (told,) = (error.details_in(Language.ENGLISH) or {})["fields"]
    assert told["field"] == field
    json.dumps(told, ensure_ascii=False).encode()  # can be sent, also if the name itself is half a character
    assert refused("chat", {**frame, "\udbff": 1, field: "x"}).field == "\ufffd"


def test_ref_with_a_lone_surrogate_is_named_and_not_returned():
    error = refused("chat", {"type": "ping", "ref": "\ud83d"})
    assert (error.code, error.ref, error.field) == ("VALIDATION_ERROR", None, "ref")


REFS = st.one_of(
    st.text(max_size=20), st.text('r\u00e9\U0001f600\\"', min_size=1, max_size=20).map(lambda part: part * 200)
)
REST = st.sampled_from(
    ['"metadata":' + "[" * 2000, '"metadata":' + '{"a":' * 2000, '"content":"a', '"content":tru', '"content":NaN', '"a":"\n"',
     '"a":1,}', '"content":"\\x"', "oops", '"inner":{"ref":"other"', '"content":"\\"ref\\":\\"other\\""', ""]
)  # fmt: skip


@given(PATHS, NEAR, REFS, REST)
def test_refusal_of_a_frame_that_is_not_json_has_its_ref(path: str, value: dict[str, Any], ref: str, rest: str):
    whole = {name: inner for name, inner in value.items() if name != "ref"} | {"ref": ref}
    error = refused(path, json.dumps(whole)[:-1] + "," + rest)
    assert (error.code, error.ref) == ("INVALID_FRAME", ref)


@given(PATHS, NEAR, REFS, st.sampled_from(["content", "metadata", "token", "session_id", "new"]))
def test_refusal_of_a_frame_with_half_a_character_has_its_ref(path: str, value: dict[str, Any], ref: str, field: str):
    error = refused(path, {**value, "ref": ref, field: {"deep": ["\ud83d"]}})
    assert (error.code, error.ref, error.field) == ("VALIDATION_ERROR", ref, field)


@for_each(
    "part",
    ["[{", '{"ref":', '"\\', '"ref":"",', '"ref":', '"', '"",', "[]", "[1", "[[1]2]", '[""', "[[]1]", '["",', "[[]1]1", "][ ",
     "[" + '"",' * 19, "{[{}]}", '"\\""', '{"a"[1', "1,"],
)  # fmt: skip
def test_ref_of_a_hostile_frame_is_looked_for_in_a_moment(part: str):
    frames_of_one_kind = [(begin + part * 16_384)[:16_384].encode() for begin in ('{"ref":"', "{", '{"a":', "{[")]
    for data in frames_of_one_kind:
        spent = []
        for _ in range(5):
            begin = time.process_time()
            frames.find_ref(data)
            spent.append(time.process_time() - begin)
        assert min(spent) < 0.002, data[:40]


@for_each("fields", [
    {"content": 'a "quoted" line\n[and] {more} \\ ' * 120, "client_message_id": ID},
    {"content": "\u4f60\u597d" * 2000}, {"content": "\U0001f600" * 1300},
    {"metadata": {"list": [{"id": at, "tags": ["a", [at]], "at": {"x": 1.5}} for at in range(60)]}},
    {"metadata": {f"name{at}": at for at in range(290)}},
])  # fmt: skip
@for_each("ending", ['"more":nul}', '"more":"cut', '"more":' + '{"a":' * 1100 + "1" + "}" * 1100 + "}", ""])
def test_ref_of_a_large_frame_that_is_not_json_is_found_before_and_after_its_texts(fields: Any, ending: str):
    for frame in ({"ref": "r7", "type": "x", **fields}, {"type": "x", **fields, "ref": "r7"}):
        for ascii_only in (True, False):
            text = json.dumps(frame, ensure_ascii=ascii_only)[:-1] + "," + ending
            assert (refused("chat", text).code, refused("chat", text).ref) == ("INVALID_FRAME", "r7"), text[:60]
    deep = json.dumps({"type": "x", **fields})[:-1] + ',"more":' + '{"a":' * 1100 + "1" + "}" * 1100 + ',"ref":"r7"}'
    assert refused("chat", deep).ref == "r7"


@pytest.mark.parametrize("ref", [7, None, ["r"], {}], ids=repr)
def test_ref_that_is_not_a_string_is_not_returned(ref: Any):
    error = refused("chat", {"type": "nope", "ref": ref})
    assert (error.code, error.ref) == ("UNKNOWN_TYPE", None)


@pytest.mark.parametrize(("path", "kind"), EVERY)
@given(
    ref=st.one_of(st.text(min_size=201, max_size=400), st.text(min_size=1, max_size=20).map(lambda part: part * 201))
)
def test_ref_that_is_too_long_is_refused_and_returned_whole(path: str, kind: str, ref: str):
    error = refused(path, {"type": kind, **GOOD[path][kind], "ref": ref})
    assert (error.code, error.ref) == ("INVALID_FRAME", ref)
    assert "`ref`" in error.text.en


def test_ref_of_a_second_object_in_a_frame_is_not_returned():
    assert refused("chat", '{"type":"ping","ref":"R"}{"ref":"S"}').ref == "R"


def test_ref_of_200_characters_is_accepted():
    assert read("chat", json.dumps({"type": "ping", "ref": "r" * 200})).ref == "r" * 200


@given(PATHS, st.text(st.characters(exclude_categories=()), max_size=60))
def test_any_text_parses_as_a_frame_or_is_refused(path: str, text: str):
    attempt(path, text)


@given(PATHS, st.binary(max_size=60))
def test_any_bytes_parse_as_a_frame_or_are_refused_or_are_not_utf_8(path: str, data: bytes):
    try:
        data.decode()
    except UnicodeDecodeError:
        with pytest.raises(NotText):
            frames.read(path, data)
    else:
        attempt(path, data.decode())


@given(PATHS, JSON)
def test_any_json_parses_as_a_frame_or_is_refused(path: str, value: Any):
    attempt(path, json.dumps(value))


@given(PATHS, NEAR)
def test_mutated_frame_parses_or_is_refused(path: str, value: dict[str, Any]):
    attempt(path, json.dumps(value))


@given(PATHS, NEAR, st.integers(0, 200))
def test_truncated_frame_is_refused(path: str, value: dict[str, Any], place: int):
    text = json.dumps(value)
    assert refused(path, text[: min(place, len(text) - 1)]).code == "INVALID_FRAME"


@given(PATHS, NEAR)
def test_parsed_frame_belongs_to_its_path(path: str, value: dict[str, Any]):
    try:
        frame = read(path, json.dumps(value))
    except Unreadable:
        return
    assert isinstance(frame, frames.Frame)
    assert msgspec.json.decode(msgspec.json.encode(frame))["type"] in TYPES[path]
