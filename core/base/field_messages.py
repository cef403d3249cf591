"""Messages about invalid fields that several rules share, in both languages."""

import re
from collections.abc import Iterable

from core.base.languages import Text

# The JSON schema of `fields` in an error's `details`.
SCHEMA = {
    "type": "array",
    "description": "The fields that are not valid, at most 20 (VALIDATION_ERROR).",
    "items": {
        "type": "object",
        "required": ["field", "message"],
        "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
    },
}

REQUIRED = Text(en="is required", id="wajib diisi")
UNKNOWN = Text(en="is not a known field", id="tidak dikenal")
INVALID = Text(en="must be a valid value", id="tidak sah")
NOT_NULL = Text(en="must not be null", id="tidak boleh null")
NO_NUL = Text(en="must not contain NUL characters", id="tidak boleh berisi karakter NUL")
NO_SURROGATES = Text(
    en="must not contain half a character (a lone surrogate)",
    id="tidak boleh berisi separuh karakter (surrogate tunggal)",
)
DIGITS = Text(en="must be digits only", id="hanya boleh berisi angka")
CODE = Text(en="must be 6 digits, or a code of letters and digits", id="harus 6 angka, atau kode dari huruf dan angka")
BY_HAND_ONLY = Text(
    en="must name the transfer if `by_hand` is true, and must be absent otherwise",
    id="harus menyebut transfernya jika `by_hand` true, dan selain itu tidak boleh ada",
)
JSON = Text(en="must be JSON", id="harus berupa JSON")
STRING = Text(en="must be a string", id="harus berupa teks")
INTEGER = Text(en="must be a whole number", id="harus berupa bilangan bulat")
NUMBER = Text(en="must be a number", id="harus berupa bilangan")
FLAG = Text(en="must be true or false", id="harus true atau false")
LIST = Text(en="must be a list", id="harus berupa daftar")
OBJECT = Text(en="must be a JSON object", id="harus berupa objek JSON")
UUID = Text(en="must be a UUID", id="harus berupa UUID")
TIME = Text(en="must be an ISO 8601 time with a zone", id="harus berupa waktu ISO 8601 dengan zona")
EMAIL = Text(
    en="must be an e-mail address of at most 255 characters",
    id="harus berupa alamat e-mail, paling panjang 255 karakter",
)
MODES = Text(
    en="must be chat, call or both, each at most once",
    id="harus chat, call atau keduanya, masing-masing paling banyak sekali",
)


def one_of(options: Iterable[str]) -> Text:
    """Return the message for a value that is not one of a list."""
    listed = ", ".join(options)
    return Text(en=f"must be one of {listed}", id=f"harus salah satu dari {listed}")


def length(low: int | None, high: int | None) -> Text:
    """Return the message for a text that is shorter or longer than allowed, in characters; None: no bound."""
    least, most = _figure(low), _figure(high)
    if high is None:
        return Text(en=f"must be at least {least.en} characters long", id=f"paling pendek {least.id} karakter")
    if low is None:
        return Text(en=f"must be at most {most.en} characters long", id=f"paling panjang {most.id} karakter")
    if low == high:
        return Text(en=f"must be {most.en} characters long", id=f"harus sepanjang {most.id} karakter")
    return Text(
        en=f"must be {least.en} to {most.en} characters long",
        id=f"harus sepanjang {least.id} sampai {most.id} karakter",
    )


def most_items(high: int) -> Text:
    """Return the message for a list that is too long."""
    most = _figure(high)
    return Text(en=f"must have at most {most.en} items", id=f"paling banyak {most.id} unsur")


def most_fields(high: int) -> Text:
    """Return the message for a map that is too large."""
    most = _figure(high)
    return Text(en=f"must have at most {most.en} fields", id=f"paling banyak {most.id} isian")


def depth(high: int) -> Text:
    """Return the message for JSON that is nested too deeply."""
    return Text(en=f"must be nested at most {high} deep", id=f"paling dalam bersarang {high} tingkat")


def most_values(high: int) -> Text:
    """Return the message for JSON with too many values."""
    most = _figure(high)
    return Text(en=f"must have at most {most.en} values", id=f"paling banyak {most.id} nilai")


def most_bytes(high: int) -> Text:
    """Return the message for JSON that is too long, in bytes of UTF-8."""
    most = _figure(high)
    return Text(en=f"must be at most {most.en} bytes of JSON", id=f"paling banyak {most.id} bita JSON")


def between(low: float | None, high: float | None, unit: Text | None = None, *, whole: bool = True) -> Text:
    """Return the message for a number out of bounds; None: no bound. `unit` is what it counts."""
    least, most = _figure(low), _figure(high)
    if high is None:
        return Text(en=f"must be at least {least.en}", id=f"paling sedikit {least.id}")
    if low is None:
        return Text(en=f"must be at most {most.en}", id=f"paling banyak {most.id}")
    of = Text(en=f" {unit.en}", id=f" {unit.id}") if unit else Text(en="", id="")
    kind = Text(en="whole number", id="bilangan bulat") if whole else Text(en="number", id="bilangan")
    return Text(
        en=f"must be a {kind.en} from {least.en} to {most.en}{of.en}",
        id=f"harus berupa {kind.id} dari {least.id} sampai {most.id}{of.id}",
    )


_SEPARATORS = str.maketrans(",.", ".,")


def _figure(value: float | None) -> Text:
    """Return a number as each language writes it: 4,000 and 4.000; empty for None."""
    if value is None:
        return Text(en="", id="")
    return Text(en=f"{value:,}", id=f"{f'{value:,}'.translate(_SEPARATORS)}")


# The message for each type that msgspec's error texts name.
_KINDS = {
    "str": STRING,
    "int": INTEGER,
    "float": NUMBER,
    "bool": FLAG,
    "array": LIST,
    "object": OBJECT,
    "datetime": TIME,
}
_EXPECTED = re.compile(
    r"Expected `(?P<kind>\w+)(?: \| null)?`(?P<bound> of length)?(?: (?P<sign>[<>]=) (?P<limit>-?\d+))?"
)
_NAMED = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<name>[^`]*)`")
_PLACE = re.compile(r" - at `(?:key in )?\$(?P<place>[^`]*)`")


def of_decoder(message: str) -> tuple[str, Text]:
    """Parse an error message of msgspec; return (path of the field, message). The path of the whole value is ""."""
    place = found["place"].lstrip(".") if (found := _PLACE.search(message)) else ""
    if named := _NAMED.match(message):
        rule = REQUIRED if named["what"].startswith("missing") else UNKNOWN
        return f"{place}.{named['name']}".lstrip("."), rule
    if "matching regex" in message:  # UUIDs are the only pattern in request types
        return place, UUID
    expected = _EXPECTED.match(message)
    if expected is None:
        return place, INVALID
    if expected["sign"] is not None:
        limit = int(expected["limit"])
        bounds = (limit, None) if expected["sign"] == ">=" else (None, limit)
        return place, length(*bounds) if expected["bound"] else between(*bounds)
    return place, _KINDS.get(expected["kind"], INVALID)
