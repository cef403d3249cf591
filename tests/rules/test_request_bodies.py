"""Request bodies: strict, every refusal a VALIDATION_ERROR that names the fields (contract 2)."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import bodies
from api.bodies import Body, Id, path_id, query_time, structure
from api.internal import failed_pairings, mitras
from api.internal import logins as operator_logins
from api.public import chat, logins, payments, profile
from core.base.errors import DomainError, NotFound, ValidationFailed

ID = "01900000-0000-7000-8000-000000000008"
CLASSES = [
    chat.MessageBody, chat.ReadBody, chat.ClosureBody, logins.RefreshBody, logins.PhoneBody, logins.CodeBody,
    payments.PaymentBody, profile.ProfileBody, operator_logins.LoginBody, operator_logins.RefreshBody, failed_pairings.ActionBody, mitras.MitraBody,
    mitras.MitraPatch,
]  # fmt: skip
MESSAGE = {"client_message_id": ID, "content": "hello"}
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(ID)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=6,
)


@attrs.frozen(kw_only=True)
class Every:
    """One field of each sort."""

    name: str = bodies.text(1, 3)
    note: str | None = bodies.optional_text(1, 3)
    count: int = bodies.integer(1, 5, default=1)
    size: int | None = bodies.optional_integer(1, 5)
    mode: str = bodies.choice("chat", "call", default="chat")
    flag: bool = False
    place: Id | None = None
    words: list[str] | None = None
    more: dict[str, Any] | None = None


def fields(value: Any, cls: type = Every) -> list[str]:
    """The names of the fields that a refusal tells."""
    with pytest.raises(DomainError) as caught:
        structure(value, cls)
    assert caught.value.code == "VALIDATION_ERROR"
    assert caught.value.details is not None
    assert all(field["message"] for field in caught.value.details["fields"])
    return sorted(field["field"] for field in caught.value.details["fields"])


def attempt(read: Callable[[], Any]) -> tuple[Any, DomainError | None]:
    """What came of it: a body, or the refusal; any other error goes through."""
    try:
        return read(), None
    except DomainError as error:
        return None, error


def test_a_good_body_is_read_and_absent_fields_have_their_defaults():
    body = structure({"name": "abc", "place": ID.upper(), "words": ["a", ""], "more": {"x": [1]}}, Every)
    assert body == Every(name="abc", place=Id(ID), words=["a", ""], more={"x": [1]})


def test_unknown_fields_are_refused_each_by_its_name():
    assert fields({"name": "a", "extra": 1, "other": None}) == ["extra", "other"]


@pytest.mark.parametrize("odd", ["", " ", "a, b", "a @ b", "a.b", "$", "ünknown", "unknown field: x"])
def test_an_unknown_field_is_named_as_it_was_sent(odd: str):
    assert fields({"name": "a", odd: 1}) == [odd]


def test_a_missing_field_is_named():
    assert fields({}) == ["name"]
    assert fields({"content": "hello"}, chat.MessageBody) == ["client_message_id"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", None), ("name", 7), ("name", ["a"]), ("name", {"a": 1}), ("name", True), ("note", 7), ("note", []),
        ("count", None), ("count", "1"), ("count", 1.0), ("count", True), ("size", "1"), ("size", False), ("size", 2.5),
        ("mode", None), ("mode", 7), ("flag", None), ("flag", 0), ("flag", "true"), ("place", 7), ("place", "x"),
        ("place", ID + "\n"), ("place", ID.replace("-", "")), ("more", []), ("more", "x"), ("more", 7), ("words", 7),
        ("words", True),
    ],
    ids=repr,
)  # fmt: skip
def test_a_value_of_the_wrong_kind_is_refused_by_its_field(field: str, value: Any):
    assert fields({"name": "a"} | {field: value}) == [field]


@pytest.mark.parametrize("value", ["abc", {"a": 1}, ""], ids=repr)
def test_a_list_is_a_list_and_not_something_that_can_be_walked(value: Any):
    assert fields({"name": "a", "words": value}) == ["words"]
    assert fields({"topics": value}, payments.PaymentBody) == ["topics"]


@pytest.mark.parametrize("words", [["a", 7], ["a", None], ["a", ["b"]], ["a", "\0"]], ids=repr)
def test_a_bad_item_of_a_list_is_refused_by_its_place(words: list[Any]):
    assert fields({"name": "a", "words": words}) == ["words[1]"]


@pytest.mark.parametrize("field", ["name", "note", "mode"])
def test_a_nul_in_a_text_is_refused_by_its_field(field: str):
    assert fields({"name": "a"} | {field: "a\0"}) == [field]


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", ""), ("name", "abcd"), ("note", ""), ("note", "abcd"), ("count", 0), ("count", 6), ("size", 0),
     ("size", 2**31), ("mode", "video"), ("mode", "")],
    ids=repr,
)  # fmt: skip
def test_a_value_out_of_bounds_is_refused_by_its_field(field: str, value: Any):
    assert fields({"name": "a"} | {field: value}) == [field]


@pytest.mark.parametrize(
    ("cls", "body", "field"),
    [
        (profile.ProfileBody, {"display_name": ""}, "display_name"),
        (chat.ClosureBody, {"message": "x" * 1001}, "message"),
        (chat.ReadBody, {"up_to": -1}, "up_to"),
        (chat.MessageBody, MESSAGE | {"type": "system"}, "type"),
        (chat.MessageBody, MESSAGE | {"content": ""}, "content"),
        (chat.MessageBody, MESSAGE | {"content": "x" * 4001}, "content"),
        (logins.CodeBody, {"otp_request_id": ID, "code": "12345"}, "code"),
        (payments.PaymentBody, {"mode": "video"}, "mode"),
        (payments.PaymentBody, {"duration_minutes": 0}, "duration_minutes"),
        (payments.PaymentBody, {"topics": ["x"] * 13}, "topics"),
        (payments.PaymentBody, {"topics": ["x" * 65]}, "topics"),
        (failed_pairings.ActionBody, {"operator_action": "nothing"}, "operator_action"),
    ],
    ids=lambda v: repr(v)[:40],
)
def test_a_route_names_the_field_that_is_out_of_bounds(cls: type, body: dict[str, Any], field: str):
    assert fields(body, cls) == [field]


def test_every_bad_field_is_named_at_once():
    assert fields({"name": 7, "count": "x", "flag": 1, "extra": 1}) == ["count", "extra", "flag", "name"]


def test_every_field_out_of_bounds_is_named_at_once():
    assert fields({"name": "", "count": 9, "mode": "video"}) == ["count", "mode", "name"]


@pytest.mark.parametrize("value", [None, [], "x", 7, True, [{"name": "a"}]], ids=repr)
def test_what_is_no_object_is_a_validation_error(value: Any):
    assert fields(value) == [""]


@given(st.sampled_from(CLASSES), JSON)
def test_any_json_is_a_body_or_a_validation_error(cls: type, value: Any):
    body, refusal = attempt(lambda: structure(value, cls))
    assert isinstance(body, cls) if refusal is None else refusal.code == "VALIDATION_ERROR"


@given(st.sampled_from(CLASSES), st.data())
def test_any_values_in_the_right_fields_are_a_body_or_a_validation_error(cls: type, data: st.DataObject):
    names = [field.name for field in attrs.fields(cls)]
    value = data.draw(st.dictionaries(st.sampled_from(names), JSON, max_size=len(names)))
    body, refusal = attempt(lambda: structure(value, cls))
    if refusal is None:
        assert isinstance(body, cls)
    else:
        assert refusal.code == "VALIDATION_ERROR"
        assert refusal.details is not None
        assert refusal.details["fields"]


@given(st.binary(max_size=60))
def test_any_bytes_are_a_body_or_a_validation_error(value: bytes):
    body, refusal = attempt(lambda: decode(value))
    assert isinstance(body, profile.ProfileBody) if refusal is None else refusal.code == "VALIDATION_ERROR"


def decode(value: bytes) -> Any:
    """As a route does it: `dto=Body[...]`."""
    body = Body[profile.ProfileBody].__new__(Body[profile.ProfileBody])
    body.model_type = profile.ProfileBody
    return body.decode_bytes(value)


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"\xff", b"nonsense", b"[" * 100_000, b'{"display_name":"\\ud800"}'],
    ids=lambda v: repr(v)[:20],
)
def test_what_is_no_json_is_a_validation_error(value: bytes):
    with pytest.raises(DomainError) as caught:
        decode(value)
    assert caught.value.code == "VALIDATION_ERROR"


def test_json_is_read_as_a_body():
    assert decode(msgspec.json.encode({"display_name": "Ayu"})) == profile.ProfileBody(display_name="Ayu")


@given(st.text())
def test_a_path_that_is_no_id_leads_nowhere(text: str):
    assert path_id(ID.upper()) == ID
    with pytest.raises(NotFound):
        path_id(text)


@pytest.mark.parametrize("value", ["2026-11-21T06:00:00Z", "2026-11-21T13:00:00+07:00", "2026-11-21T13:00:00 07:00"])
def test_a_time_in_a_query_is_iso_8601_with_a_zone(value: str):
    assert query_time("from", value) == dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
    assert query_time("from", None) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "today",
        "2026-11-21",
        "2026-11-21T06:00:00",
        "1763704800",
        "2026-13-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_another_time_in_a_query_is_refused_by_its_name(value: str):
    with pytest.raises(ValidationFailed) as caught:
        query_time("from", value)
    assert caught.value.details is not None
    assert caught.value.details["fields"][0]["field"] == "from"


@given(st.text())
def test_any_text_in_a_query_is_a_time_or_refused(text: str):
    try:
        at = query_time("from", text)
    except ValidationFailed:
        return
    assert at is not None
    assert at.tzinfo is not None
