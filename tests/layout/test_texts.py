"""Each text for people exists in both languages, and both versions contain the same values."""

import ast
import functools
import itertools
import pathlib
import re

from core.base.languages import Text

ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted(path for package in ("api", "core", "realtime", "jobs") for path in (ROOT / package).rglob("*.py"))
WORD = re.compile(r"[a-z']+")
COLUMNS = ROOT / "core" / "storage" / "columns.py"  # its `Text` is a column type
ENGLISH = frozenset(
    WORD.findall("""the is are was must has have had not no of to at and or a an this that these there most least your you for be can
    already too many try again with from send wait long than first another code's deep""")
)
INDONESIAN = frozenset(
    WORD.findall("yang tidak harus dan atau ini itu sudah belum anda dengan untuk silakan mohon bukan")
)
IMPOLITE = frozenset({"kamu", "kau", "engkau", "lu", "gue"})
# Calls whose argument is a text for people: none of them accepts a bare string.
TELLING = frozenset(
    {"of", "error", "Forbidden", "NotFound", "Unavailable", "ValidationFailed", "Unreadable", "NotText"}
)


@functools.cache
def every_call() -> list[tuple[str, str | None, ast.Call]]:
    """Return every call in the service, with its location and its name, None if it has none."""
    found = []
    for path in FILES:
        if path == COLUMNS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
                found.append((f"{path.relative_to(ROOT)}:{node.lineno}", name, node))
    return found


def calls(*names: str) -> list[tuple[str, ast.Call]]:
    """Return every call of these names in the service, with its location."""
    return [(place, call) for place, name, call in every_call() if name in names]


def texts() -> list[tuple[str, dict[str, ast.expr]]]:
    """Return the parts of every text, with its location."""
    return [(place, {str(part.arg): part.value for part in call.keywords}) for place, call in calls(Text.__name__)]


def words_of(value: ast.expr) -> str:
    """Return a text without its placeholders' values."""
    parts = value.values if isinstance(value, ast.JoinedStr) else [value]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


def filled_in(value: ast.expr) -> list[str]:
    """Return the variables that are filled in; the table of separators differs by language."""
    return sorted(
        {
            name.id
            for part in ast.walk(value)
            if isinstance(part, ast.FormattedValue)
            for name in ast.walk(part)
            if isinstance(name, ast.Name) and name.id != "_SEPARATORS"
        }
    )


def plain(text: str) -> set[str]:
    return set(WORD.findall(re.sub(r"`[^`]*`", "", text.lower())))


def test_each_text_has_both_languages_in_one_declaration() -> None:
    found = texts()
    assert len(found) > 150
    assert [place for place, parts in found if set(parts) != {"en", "id"}] == []
    strings = (ast.Constant, ast.JoinedStr)
    assert [place for place, parts in found if not all(isinstance(p, strings) for p in parts.values())] == []


def test_placeholders_are_the_same_in_both_languages() -> None:
    assert [place for place, parts in texts() if filled_in(parts["en"]) != filled_in(parts["id"])] == []


def test_no_text_is_in_the_wrong_language() -> None:
    wrong = []
    for place, parts in texts():
        english, indonesian = words_of(parts["en"]), words_of(parts["id"])
        if any(sign.isalpha() for sign in english.replace("{}", "")) and english == indonesian:
            wrong.append(f"{place}: the same in both")
        if left := plain(indonesian) & ENGLISH:
            wrong.append(f"{place}: {left} in {indonesian}")
        if left := plain(english) & INDONESIAN:
            wrong.append(f"{place}: {left} in {english}")
        if plain(indonesian) & IMPOLITE:
            wrong.append(f"{place}: impolite: {indonesian}")
    assert wrong == []


def test_both_languages_end_with_the_same_punctuation() -> None:
    ends = [(place, words_of(parts["en"])[-1:], words_of(parts["id"])[-1:]) for place, parts in texts()]
    assert [place for place, english, indonesian in ends if (english in ".?") != (indonesian in ".?")] == []


def test_one_english_text_has_one_translation() -> None:
    pairs = sorted({(words_of(parts["en"]), words_of(parts["id"])) for _, parts in texts()} - {("{} {}", "{} {}")})
    assert [one for one, other in itertools.pairwise(pairs) if one[0] == other[0]] == []


def test_no_message_for_users_is_a_bare_string() -> None:
    strings = (ast.Constant, ast.JoinedStr)
    bare = []
    for place, call in calls(*TELLING):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id  # type: ignore[attr-defined]
        owner = ast.unparse(call.func)
        if (name == "of" and owner != "ValidationFailed.of") or owner.startswith(("log.", "logs.", "parser.")):
            continue
        message = call.args[1:2] if name in {"of", "error", "Unreadable", "NotText"} else call.args[:1]
        if any(isinstance(one, strings) and isinstance(getattr(one, "value", ""), str) for one in message):
            bare.append(place)
    assert bare == []
