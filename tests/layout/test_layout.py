"""Rules for the whole tree: tables and SQL agree, errors and events are complete, files are documented."""

import argparse
import ast
import datetime as dt
import functools
import importlib
import itertools
import json
import pathlib
import re
import types
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

import api.apps
import realtime.server
from api import errors as api_errors
from core.base import ids
from core.base.actor import UserType
from core.base.errors import DomainError, Kind
from core.desk.timed_work import DEADLINES, TIMED
from core.events import notices, signals
from jobs.schedule import SWEEPS
from tools import cli

ROOT = pathlib.Path(__file__).parents[2]
PACKAGES = ("core", "api", "realtime", "jobs", "tools")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
NOW = dt.datetime(2026, 11, 21, 6, 0, 0, 123456, tzinfo=dt.UTC)


def name_of(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


# -- errors


def walk(cls: type[DomainError]) -> Iterator[type[DomainError]]:
    yield cls
    for below in cls.__subclasses__():
        yield from walk(below)


def all_errors() -> list[type[DomainError]]:
    assert isinstance(api.apps, types.ModuleType)
    assert isinstance(realtime.server, types.ModuleType)
    return sorted(
        {e for e in walk(DomainError) if e.__module__.split(".")[0] in PACKAGES}, key=lambda e: e.__qualname__
    )


def test_every_error_class_has_its_own_code():
    """One code, one class: a search for a code must lead to one place."""
    by_code: dict[str, list[str]] = {}
    for error in all_errors():
        by_code.setdefault(error.code, []).append(error.__qualname__)
    assert len(by_code) > 20
    assert {code: names for code, names in by_code.items() if len(names) > 1} == {}


def test_every_error_code_is_in_upper_case():
    assert [e.__qualname__ for e in all_errors() if not re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*", e.code)] == []


def test_every_error_has_a_message_in_both_languages():
    for error in all_errors():
        for text in (error.message.en, error.message.id):
            assert text.endswith("."), error.__qualname__


def test_every_error_class_has_a_status():
    assert set(api_errors.STATUS) == set(Kind)
    assert all(400 <= status <= 599 for status in api_errors.STATUS.values())
    assert [e.__qualname__ for e in all_errors() if e.kind not in api_errors.STATUS] == []


# -- events

SAMPLES: dict[Any, list[Any]] = {
    str: ["", "01900000-0000-7000-8000-000000000009", "ü\n😀"],
    bool: [True, False],
    int: [0, 1, 2**31 - 1],
    bytes: [b"", b'{"type":"x"}', bytes(range(256))],
    list[str]: [[], ["a", "b"]],
    dt.datetime: [NOW, NOW.replace(microsecond=0)],
    str | None: [None, "x"],
    list[str] | None: [None, ["x"]],
    UserType: list(UserType),
}


def instances(cls: type[msgspec.Struct]) -> Iterator[msgspec.Struct]:
    """Yield every combination of sample values of a class's fields."""
    found = msgspec.structs.fields(cls)
    for values in itertools.product(*(SAMPLES[field.type] for field in found)):
        yield cls(**{field.name: value for field, value in zip(found, values, strict=True)})


def test_signal_union_contains_every_signal():
    assert set(get_args(signals.Any_)) == set(signals.Signal.__subclasses__())


@pytest.mark.parametrize("cls", get_args(signals.Any_), ids=lambda cls: cls.__name__)
def test_every_signal_survives_encoding(cls: type[signals.Signal]):
    for signal in instances(cls):
        assert signals.decode(signals.encode(signal)) == signal  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", get_args(signals.Any_), ids=lambda cls: cls.__name__)
def test_signal_with_an_unknown_field_is_decoded(cls: type[signals.Signal]):
    signal = next(instances(cls))
    raw = msgspec.json.decode(signals.encode(signal))  # type: ignore[arg-type]
    assert signals.decode(msgspec.json.encode(raw | {"added_later": [1]})) == signal


@pytest.mark.parametrize(
    "data", [b'{"type":"SomethingNew","x":1}', b"{}", b'{"type":7}', b"[]", b"7", b'{"type":"ConfigChanged"}']
)
def test_unknown_signal_decodes_to_none(data: bytes):
    assert signals.decode(data) is None


ENVELOPE_FIELDS = {field.name: get_args(field.type)[0] for field in msgspec.structs.fields(notices.Envelope)}

OTHERS = b"0" * notices.TAG  # the tag of another process


@pytest.mark.parametrize("field", ENVELOPE_FIELDS)
def test_every_field_of_an_envelope_survives_encoding(field: str):
    cls = ENVELOPE_FIELDS[field]
    for one in itertools.islice(instances(cls), 300):
        envelope = notices.Envelope(**{field: [one, one]})
        assert notices.decode(notices.encode(envelope, node=ids.new_id()), node=ids.new_id()) == envelope


def test_full_and_empty_envelopes_survive_encoding():
    full = notices.Envelope(
        **{field: list(itertools.islice(instances(cls), 3)) for field, cls in ENVELOPE_FIELDS.items()}
    )
    for envelope in (full, notices.Envelope()):
        assert notices.decode(notices.encode(envelope, node=ids.new_id()), node=ids.new_id()) == envelope


def test_envelope_with_an_unknown_field_is_decoded():
    raw = {"origin": "node", "notices": [], "messages": [], "passing": [], "added_later": {"x": 1}}
    assert notices.decode(OTHERS + msgspec.msgpack.encode(raw), node=ids.new_id()) == notices.Envelope()


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"{}", msgspec.msgpack.encode({"notices": 1}), msgspec.msgpack.encode([])]
)
def test_invalid_envelope_is_a_decode_error(data: bytes):
    with pytest.raises(msgspec.DecodeError):
        notices.decode(OTHERS + data, node=ids.new_id())


# -- timed work


def test_each_kind_of_timed_work_is_done_by_a_deadline_or_a_sweep():
    assert {one.kind for one in TIMED} - set(DEADLINES) <= {sweep.name for sweep in SWEEPS}


def test_timer_names_are_unique():
    names = [*DEADLINES, *(sweep.name for sweep in SWEEPS)]
    assert len(names) == len(set(names))
    assert all(sweep.every_s > 0 for sweep in SWEEPS)


# -- statements


def in_brackets(text: str) -> str:
    """Return the content of the brackets at the start of a text."""
    depth = 0
    for place, sign in enumerate(text):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth == 0:
            return text[: place + 1]
    return text


def test_limited_subqueries_use_any_array():
    """`IN (SELECT ... LIMIT)` may run again for each row and then takes more rows; `= ANY (ARRAY(...))` never does."""
    found = [
        f"{name_of(path)}: {inner[:60]}"
        for path in FILES
        for text in [path.read_text()]
        for match in re.finditer(r"\bIN (?=\()", text)
        if "LIMIT" in (inner := in_brackets(text[match.end() :]))
    ]
    assert found == []


# -- commands


def commands(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """Yield what runs each command of a parser and of those below it."""
    if parser.get_default("run") is not None:
        yield parser.get_default("run")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from commands(below)


def test_every_command_has_its_function():
    named = [run.args for run in commands(cli.parser()) if isinstance(run, functools.partial)]
    assert len(named) > 20
    for module, function in named:
        assert callable(getattr(importlib.import_module(f"tools.commands.{module}"), function))


# -- files


def bases_of(node: ast.ClassDef) -> set[str]:
    """Return the last part of each base class's name: `Protocol` of `typing.Protocol[T]`."""
    names = set()
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        names.add(plain.attr if isinstance(plain, ast.Attribute) else getattr(plain, "id", ""))
    return names


@functools.cache
def trees() -> dict[pathlib.Path, ast.Module]:
    """Return the parsed files. Workers of the tests that run none of these do not parse them."""
    return {path: ast.parse(path.read_text()) for path in FILES}


@functools.cache
def methods_and_bases() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the methods and the base classes of each class, by its name."""
    methods: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for tree in trees().values():
        for top in ast.walk(tree):
            if isinstance(top, ast.ClassDef):
                methods.setdefault(top.name, set()).update(
                    item.name for item in top.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
                )
                bases.setdefault(top.name, set()).update(bases_of(top))
    return methods, bases


def overrides(cls: str, method: str) -> bool:
    """Return whether a base class in the repository has the method already."""
    methods, bases = methods_and_bases()
    return any(method in methods.get(base, ()) or overrides(base, method) for base in bases.get(cls, ()) if base != cls)


def undocumented(body: list[ast.stmt], inside: ast.ClassDef | None = None) -> Iterator[tuple[int, str]]:
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        is_class = isinstance(node, ast.ClassDef)
        if (
            inside is not None
            and not is_class
            and ("Protocol" in bases_of(inside) or overrides(inside.name, node.name))
        ):
            continue
        if not ast.get_docstring(node):
            yield node.lineno, node.name if inside is None else f"{inside.name}.{node.name}"
        if is_class:
            yield from undocumented(node.body, node)


def test_every_public_function_and_class_has_a_docstring():
    missing = [
        f"{name_of(path)}:{line} {name}" for path, tree in trees().items() for line, name in undocumented(tree.body)
    ]
    assert missing == []


def test_every_module_has_a_docstring():
    assert [name_of(path) for path, tree in trees().items() if tree.body and not ast.get_docstring(tree)] == []


# -- errors


def test_loops_that_outlive_an_error_end_without_the_database():
    """Each round would fail and write a stack trace, and the sweep would count as done."""
    found = []
    for path, tree in trees().items():
        loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.AsyncFor)]
        for block in itertools.chain.from_iterable(map(ast.walk, loops)):
            if isinstance(block, ast.Try) and any(
                isinstance(node, ast.Await | ast.AsyncWith) for node in ast.walk(block)
            ):
                caught = [ast.unparse(handler.type) for handler in block.handlers if handler.type]
                if "Exception" in caught and not any("Unavailable" in names for names in caught):
                    found.append(f"{name_of(path)}:{block.lineno}")
    assert found == []


# -- names and sizes

LONG = 120  # columns
SHORT = 60  # lines


@functools.cache
def schema_names() -> frozenset[str]:
    """Return the names of bodies and frames in the interface documents, of which several may have one."""
    documents = [json.loads(path.read_text()) for path in (ROOT / "docs" / "api").glob("*.json")]
    return frozenset(name for document in documents for name in document.get("components", {}).get("schemas", {}))


def test_each_class_name_stands_for_one_thing():
    """A search for a name must lead to one place. Tables repeat the names of their records, clients those of the service."""
    found: dict[str, list[str]] = {}
    for path, tree in trees().items():
        if path.name == "tables.py" or name_of(path).startswith(("tools/bench/peers/", "tools/driving/sesi_client/")):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in schema_names():
                found.setdefault(node.name, []).append(f"{name_of(path)}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_few_lines_are_longer_than_the_formatter_makes_them():
    """Comments, docstrings and texts are wrapped by hand. Some addresses and tables of texts can't be."""
    found = [
        f"{name_of(path)}:{number}"
        for path in FILES
        if name_of(path).split("/")[0] in ("core", "api", "realtime")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if len(line) > LONG
    ]
    assert len(found) <= 20, found


def imported(tree: ast.Module) -> set[str]:
    """Return the modules that a module may import: those it names, and the names that it takes from packages."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_few_modules_of_core_are_short_and_imported_once():
    """Such a module is read with its importer, so it belongs there. Tables and some use cases stand alone."""
    importers: dict[str, int] = {}
    for tree in trees().values():
        for name in imported(tree):
            importers[name] = importers.get(name, 0) + 1
    found = [
        name_of(path)
        for path in FILES
        if name_of(path).startswith("core/")
        and path.name != "tables.py"
        and len(path.read_text().splitlines()) < SHORT
        and importers.get(name_of(path).removesuffix(".py").replace("/", ".")) == 1
    ]
    assert len(found) <= 20, found
