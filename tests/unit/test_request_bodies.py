"""Request bodies: parsed strictly; every refusal is a VALIDATION_ERROR that names the fields (docs/errors.md)."""

import datetime as dt
import functools
import json
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import attrs
import msgspec
import pytest
from attrs import validators
from hypothesis import given
from hypothesis import strategies as st

from api import errors, request_bodies, structuring
from api.internal import failed_pairings, mitras, second_factor
from api.internal import logins as operator_logins
from api.parameters import path_id, query_time
from api.public import chat, logins, own_data, payments, profile
from api.refusals import Refusal
from api.request_bodies import Body, structure
from core.base.errors import DomainError, NotFound, ValidationFailed
from core.base.field_types import Id, Mode
from core.base.languages import Language, Text
from core.sessions.sensitivity import Sensitivity
from tests.each import for_each

ID = "01900000-0000-7000-8000-000000000008"
CLASSES = [
    chat.messages.MessageBody, chat.messages.ReadBody, chat.sessions.ClosureBody, logins.RefreshBody, logins.PhoneBody, logins.CodeBody,
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
    """One field of each kind."""

    name: str = request_bodies.text(1, 3)
    note: str | None = request_bodies.optional_text(1, 3)
    count: int = request_bodies.integer(1, 5, default=1)
    size: int | None = request_bodies.optional_integer(1, 5)
    mode: Mode = "chat"
    topic: Sensitivity = Sensitivity.REGULAR
    flag: bool = False
    place: Id | None = None
    words: list[str] | None = None
    more: dict[str, Any] | None = None


def fields(value: Any, cls: type = Every) -> list[str]:
    """Return the names of the fields in a refusal."""
    with pytest.raises(DomainError) as caught:
        structure(value, cls)
    assert caught.value.code == "VALIDATION_ERROR"
    assert caught.value.details is not None
    assert all(field["message"] for field in caught.value.details["fields"])
    return sorted(field["field"] for field in caught.value.details["fields"])


def attempt(read: Callable[[], Any]) -> tuple[Any, DomainError | None]:
    """Return the body or the refusal; any other error is raised."""
    try:
        return read(), None
    except DomainError as error:
        return None, error


def test_valid_body_is_parsed_and_absent_fields_get_defaults():
    body = structure({"name": "abc", "place": ID.upper(), "words": ["a", ""], "more": {"x": [1]}}, Every)
    assert body == Every(name="abc", place=Id(ID), words=["a", ""], more={"x": [1]})


def test_word_of_an_enum_becomes_its_member():
    assert structure({"name": "a", "topic": "sensitive"}, Every).topic is Sensitivity.SENSITIVE


def test_unknown_fields_are_refused_by_name():
    assert fields({"name": "a", "extra": 1, "other": None}) == ["extra", "other"]


@for_each("odd", ["", " ", "a, b", "a @ b", "a.b", "$", "ünknown", "unknown field: x"])
def test_unknown_field_is_named_as_it_was_sent(odd: str):
    assert fields({"name": "a", odd: 1}) == [odd]


def test_missing_field_is_named():
    assert fields({}) == ["name"]
    assert fields({"content": "hello"}, chat.messages.MessageBody) == ["client_message_id"]


@for_each(
    ("field", "value"),
    [
        ("name", None), ("name", 7), ("name", ["a"]), ("name", {"a": 1}), ("name", True), ("note", 7), ("note", []),
        ("count", None), ("count", "1"), ("count", 1.0), ("count", True), ("size", "1"), ("size", False), ("size", 2.5),
        ("mode", None), ("mode", 7), ("topic", 7), ("flag", None), ("flag", 0), ("flag", "true"), ("place", 7), ("place", "x"),
        ("place", ID + "\n"), ("place", ID.replace("-", "")), ("more", []), ("more", "x"), ("more", 7), ("words", 7),
        ("words", True),
    ],
    ids=repr,
)  # fmt: skip
def test_value_of_the_wrong_type_is_refused_with_its_field(field: str, value: Any):
    assert fields({"name": "a"} | {field: value}) == [field]


@pytest.mark.parametrize("value", ["abc", {"a": 1}, ""], ids=repr)
def test_list_field_refuses_other_iterables(value: Any):
    assert fields({"name": "a", "words": value}) == ["words"]
    assert fields({"topics": value}, payments.PaymentBody) == ["topics"]


@pytest.mark.parametrize("words", [["a", 7], ["a", None], ["a", ["b"]], ["a", "\0"]], ids=repr)
def test_invalid_list_item_is_refused_with_its_index(words: list[Any]):
    assert fields({"name": "a", "words": words}) == ["words[1]"]


@pytest.mark.parametrize("field", ["name", "note", "mode"])
def test_text_with_a_nul_is_refused_with_its_field(field: str):
    assert fields({"name": "a"} | {field: "a\0"}) == [field]


@for_each(
    ("field", "value"),
    [("name", ""), ("name", "abcd"), ("note", ""), ("note", "abcd"), ("count", 0), ("count", 6), ("size", 0),
     ("size", 2**31), ("mode", "video"), ("mode", ""), ("topic", "secret")],
    ids=repr,
)  # fmt: skip
def test_value_out_of_bounds_is_refused_with_its_field(field: str, value: Any):
    assert fields({"name": "a"} | {field: value}) == [field]


# Class of a body with a code -> the rest of the body, and whether the code may have letters.
CODES: dict[type, tuple[dict[str, Any], bool]] = {
    logins.CodeBody: ({"otp_request_id": ID}, False),
    own_data.EraseBody: ({"otp_request_id": ID}, False),
    second_factor.ConfirmBody: ({}, False),
    second_factor.VerifyBody: ({"login_token": "x"}, False),
    second_factor.CodeBody: ({}, True),
    second_factor.BeginBody: ({"password": "x"}, True),
    second_factor.RemoveBody: ({"password": "x"}, True),
}


@functools.cache
def zeros() -> list[int]:
    """Return the zero of each script. Workers of the tests that run none of these do not look for them."""
    return [code for code in range(sys.maxunicode + 1) if unicodedata.decimal(chr(code), None) == 0]


@pytest.mark.parametrize("cls", CODES)
@given(digits=st.from_regex(r"[0-9]{6}", fullmatch=True), zero=st.deferred(lambda: st.sampled_from(zeros())))
def test_digits_of_any_script_are_read_in_each_code(cls: type, digits: str, zero: int):
    written = "".join(chr(zero + int(digit)) for digit in digits)
    assert structure({**CODES[cls][0], "code": written}, cls).code == digits


@pytest.mark.parametrize("cls", CODES)
@given(digits=st.from_regex(r"[0-9]{5}", fullmatch=True), sign=st.characters(exclude_categories=["Nd"]))
def test_other_signs_are_refused_in_each_code(cls: type, digits: str, sign: str):
    more, letters = CODES[cls]
    written = digits[:3] + sign + digits[3:]
    assert fields({**more, "code": written}, cls) == ["code"]
    if not letters or not (sign.isascii() and sign.isalpha()):
        assert fields({**more, "code": f"abcd-{written}"}, cls) == ["code"] or (letters and sign in " -")


@for_each(
    ("cls", "body", "field"),
    [
        (profile.ProfileBody, {"display_name": ""}, "display_name"),
        (chat.sessions.ClosureBody, {"message": "x" * 1001}, "message"),
        (chat.messages.ReadBody, {"up_to": -1}, "up_to"),
        (chat.messages.MessageBody, MESSAGE | {"type": "system"}, "type"),
        (chat.messages.MessageBody, MESSAGE | {"content": ""}, "content"),
        (chat.messages.MessageBody, MESSAGE | {"content": "x" * 4001}, "content"),
        (logins.CodeBody, {"otp_request_id": ID, "code": "12345"}, "code"),
        (payments.PaymentBody, {"mode": "video"}, "mode"),
        (payments.PaymentBody, {"duration_minutes": 0}, "duration_minutes"),
        (payments.PaymentBody, {"topics": ["x"] * 13}, "topics"),
        (payments.PaymentBody, {"topics": ["x" * 65]}, "topics"),
        (failed_pairings.ActionBody, {"operator_action": "nothing"}, "operator_action"),
    ],
    ids=lambda v: repr(v)[:40],
)
def test_route_names_the_field_that_is_out_of_bounds(cls: type, body: dict[str, Any], field: str):
    assert fields(body, cls) == [field]


def test_all_invalid_fields_are_named_in_one_refusal():
    assert fields({"name": 7, "count": "x", "flag": 1, "extra": 1}) == ["count", "extra", "flag", "name"]


def test_all_fields_out_of_bounds_are_named_in_one_refusal():
    assert fields({"name": "", "count": 9, "mode": "video"}) == ["count", "mode", "name"]


class Element(str):
    """A string that counts how often it is read."""

    reads = 0


@attrs.frozen(kw_only=True)
class Long:
    """Lists and maps with and without their own bound."""

    bounded: list[Element] = attrs.field(factory=list, validator=validators.max_len(12))
    maybe: list[Element] | None = attrs.field(default=None, validator=validators.optional(validators.max_len(12)))
    named: dict[str, Element] = attrs.field(factory=dict, validator=[validators.max_len(12)])
    ceiling: list[Element] = attrs.field(factory=list)


@pytest.fixture
def reads() -> Callable[[], int]:
    """Return a function that returns how many elements were read."""

    def count(value: Any, _: type) -> Element:
        Element.reads += 1
        return Element(structuring.read_text(value, str))

    structuring.converter.register_structure_hook(Element, count)
    Element.reads = 0
    return lambda: Element.reads


@for_each("field", ["bounded", "maybe", "named", "ceiling"])
@for_each("element", ["x", 1])
def test_too_long_list_or_map_is_refused_before_an_element_is_read(
    reads: Callable[[], int], field: str, element: Any
) -> None:
    many = 13 if field != "ceiling" else structuring.MAX_ITEMS + 1
    value: Any = {f"k{n}": element for n in range(many)} if field == "named" else [element] * many
    assert fields({field: value}, Long) == [field]
    assert reads() == 0


def test_parsing_stops_after_the_number_of_errors_in_an_answer(reads: Callable[[], int]) -> None:
    assert len(fields({"ceiling": [1] * structuring.MAX_ITEMS}, Long)) == structuring.MAX_ERRORS
    assert reads() == structuring.MAX_ERRORS


def test_list_and_map_at_their_limits_are_accepted(reads: Callable[[], int]) -> None:
    body = structure({"bounded": ["x"] * 12, "named": {str(n): "x" for n in range(12)}}, Long)
    assert (len(body.bounded), len(body.named), reads()) == (12, 12, 24)


@pytest.mark.parametrize(
    "value",
    [
        b'{"display_name":[' + b"1," * 30_000 + b"1]}",
        b'{"display_name":{' + b",".join(b'"%d":1' % n for n in range(6_000)) + b"}}",
        b"{" + b",".join(b'"%d":1' % n for n in range(7_000)) + b"}",
        b'{"display_name":[' + b"[]," * 15_000 + b"[]]}",
        b'{"display_name":' + b"[" * 65 + b"]" * 65 + b"}",
        b'{"display_name":' + b'{"a":' * 800 + b"1" + b"}" * 800 + b"}",
    ],
    ids=lambda v: repr(v)[:30],
)
def test_large_or_deep_json_is_refused_as_a_whole(value: bytes) -> None:
    with pytest.raises(ValidationFailed) as caught:
        decode(value)
    assert caught.value.details is not None
    [field] = caught.value.details["fields"]
    assert field["field"] == ""
    assert "at most" in field["message"].en


HOSTILE = [
    {"extra": 1} | {"x" * 900 + str(n): 1 for n in range(60)},
    {"name": "a", "words": [1] * 900},
    {"name": "a", "more": {"\0" * 50 + str(n): 1 for n in range(900)}},
    {"name": "a", "\U0001f600" * 15_000: 1},
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda v: repr(v)[:30])
def test_refusal_names_20_fields_and_counts_the_others_in_8_kib(value: Any) -> None:
    with pytest.raises(ValidationFailed) as caught:
        structure(value, Every)
    _, content = errors.raw(caught.value, Language.ENGLISH)
    details = json.loads(content)["error"]["details"]
    assert len(content) <= 8_192
    assert 1 <= len(details["fields"]) <= 20
    assert caught.value.details is not None
    assert len(details["fields"]) + details.get("more", 0) == len(caught.value.details["fields"])


def test_every_kind_of_error_body_stays_below_8_kib() -> None:
    for text in ("x" * 60_000, "\0" * 60_000, "\U0001f600" * 15_000):
        words = Text(en=text, id=text)
        refusal = Refusal(status=422, code="CODE", message=words)
        found = errors.body(
            refusal,
            Language.INDONESIAN,
            details={"fields": [{"field": text, "message": words}] * 50},
            retry_after_seconds=1,
        )
        assert len(json.dumps(found, ensure_ascii=False).encode()) <= 8_192
        assert found["error"]["details"]["more"] >= 30
        other = errors.body(refusal, Language.ENGLISH, details={"name": text})
        assert len(json.dumps(other, ensure_ascii=False).encode()) <= 8_192


@pytest.mark.parametrize("value", [None, [], "x", 7, True, [{"name": "a"}]], ids=repr)
def test_body_that_is_not_an_object_is_a_validation_error(value: Any):
    assert fields(value) == [""]


@given(st.sampled_from(CLASSES), JSON)
def test_any_json_is_a_valid_body_or_a_validation_error(cls: type, value: Any):
    body, refusal = attempt(lambda: structure(value, cls))
    assert isinstance(body, cls) if refusal is None else refusal.code == "VALIDATION_ERROR"


@given(st.sampled_from(CLASSES), st.data())
def test_any_field_values_are_a_valid_body_or_a_validation_error(cls: type, data: st.DataObject):
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
def test_any_bytes_are_a_valid_body_or_a_validation_error(value: bytes):
    body, refusal = attempt(lambda: decode(value))
    assert isinstance(body, profile.ProfileBody) if refusal is None else refusal.code == "VALIDATION_ERROR"


def decode(value: bytes) -> Any:
    """Decode a body as a route with `dto=Body[...]` does."""
    body = Body[profile.ProfileBody].__new__(Body[profile.ProfileBody])
    body.model_type = profile.ProfileBody
    return body.decode_bytes(value)


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"\xff", b"nonsense", b"[" * 100_000, b'{"display_name":"\\ud800"}'],
    ids=lambda v: repr(v)[:20],
)
def test_body_that_is_not_json_is_a_validation_error(value: bytes):
    with pytest.raises(DomainError) as caught:
        decode(value)
    assert caught.value.code == "VALIDATION_ERROR"


def test_valid_json_is_parsed_as_a_body():
    assert decode(msgspec.json.encode({"display_name": "Ayu"})) == profile.ProfileBody(display_name="Ayu")


@given(st.text())
def test_path_with_an_invalid_id_is_not_found(text: str):
    assert path_id(ID.upper()) == ID
    with pytest.raises(NotFound):
        path_id(text)


@pytest.mark.parametrize("value", ["2026-11-21T06:00:00Z", "2026-11-21T13:00:00+07:00", "2026-11-21T13:00:00 07:00"])
def test_query_time_in_iso_8601_with_a_zone_is_accepted(value: str):
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
def test_invalid_query_time_is_refused_with_its_name(value: str):
    with pytest.raises(ValidationFailed) as caught:
        query_time("from", value)
    assert caught.value.details is not None
    assert caught.value.details["fields"][0]["field"] == "from"


@given(st.text())
def test_any_text_as_a_query_time_is_accepted_or_refused(text: str):
    try:
        at = query_time("from", text)
    except ValidationFailed:
        return
    assert at is not None
    assert at.tzinfo is not None


@attrs.frozen(kw_only=True)
class Bounded:
    """A body with a bound of each kind."""

    code: str = request_bodies.text(6, 6)
    name: str = request_bodies.text(1, 100)
    nick: str | None = request_bodies.optional_text(2, 9)
    minutes: int = request_bodies.integer(1, 60)
    mode: Mode
    words: list[str] = attrs.field(validator=validators.max_len(2))


GOOD = {"code": "123456", "name": "x", "minutes": 1, "mode": "chat", "words": []}


@for_each(
    ("field", "value", "en", "id_"),
    [
        ("code", "1", "must be 6 characters long", "harus sepanjang 6 karakter"),
        ("name", "", "must be 1 to 100 characters long", "harus sepanjang 1 sampai 100 karakter"),
        ("name", 5, "must be a string", "harus berupa teks"),
        ("name", "\0", "must not contain NUL characters", "tidak boleh berisi karakter NUL"),
        ("nick", "x" * 10, "must be 2 to 9 characters long", "harus sepanjang 2 sampai 9 karakter"),
        ("minutes", 61, "must be a whole number from 1 to 60", "harus berupa bilangan bulat dari 1 sampai 60"),
        ("minutes", "1", "must be a whole number", "harus berupa bilangan bulat"),
        ("mode", "mail", "must be one of chat, call", "harus salah satu dari chat, call"),
        ("words", ["a"] * 3, "must have at most 2 items", "paling banyak 2 unsur"),
        ("words", {}, "must be a list", "harus berupa daftar"),
        ("extra", 1, "is not a known field", "tidak dikenal"),
    ],
)
def test_invalid_field_is_explained_in_both_languages(field: str, value: Any, en: str, id_: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        structure({**GOOD, field: value}, Bounded)
    for language, message in ((Language.ENGLISH, en), (Language.INDONESIAN, id_)):
        details = caught.value.details_in(language)
        assert details == {"fields": [{"field": field, "message": message}]}


def test_missing_field_is_explained_in_both_languages() -> None:
    with pytest.raises(ValidationFailed) as caught:
        structure({name: value for name, value in GOOD.items() if name != "code"}, Bounded)
    assert caught.value.details_in(Language.INDONESIAN) == {"fields": [{"field": "code", "message": "wajib diisi"}]}
