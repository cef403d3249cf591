"""Write docs/proofs.md: each cause tag, event and error code, with the tests that cover it.

The words come from the enums, frames and error classes. The tests come from the source of the tests: a test covers each
word that it names. A test keeps the page current and complete.
"""

import ast
import functools
import importlib
import pathlib
import pkgutil
from collections.abc import Iterator

from core.base.errors import DomainError
from core.deliveries.events import declared
from core.deliveries.pushes.rules import Words
from core.payments.failures.causes import CauseTag

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "proofs.md"
PACKAGES = ("core", "api", "realtime")
SHOWN = 3  # tests for each word, those that name the fewest words first
# Codes without an error class.
FRAMEWORK = ("METHOD_NOT_ALLOWED", "UNSUPPORTED_MEDIA_TYPE", "INVALID_FRAME", "UNKNOWN_TYPE")


def _subclasses(cls: type[DomainError]) -> Iterator[type[DomainError]]:
    for below in cls.__subclasses__():
        yield below
        yield from _subclasses(below)


def words() -> dict[str, list[str]]:
    """Return the words that tests must cover, by kind of word."""
    from realtime import server_frames

    for package in PACKAGES:
        for module in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            importlib.import_module(module.name)
    ours = {error.code for error in _subclasses(DomainError) if error.__module__.split(".")[0] in PACKAGES}
    frames = {str(frame.__struct_config__.tag) for some in server_frames.FRAMES.values() for frame in some}
    return {
        "Cause tags": [tag.value for tag in CauseTag],
        "Server frames": sorted(frames),
        "Events that become a push": sorted(event.type_name() for event in declared() if isinstance(event.push, Words)),
        "Error codes": sorted({*ours, *FRAMEWORK}),
    }


def _strings(node: ast.AST) -> set[str]:
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, part in zip(target.elts, value.elts, strict=True):
            yield from _assigned(one, part)


def _helpers(tree: ast.Module) -> dict[str, set[str]]:
    """Return the strings in each constant and function of a file, including those of other ones that it uses."""
    parts: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts[node.name] = node
        elif isinstance(node, ast.Assign):
            parts |= dict(_assigned(node.targets[0], node.value))
    strings = {name: _strings(node) for name, node in parts.items()}
    uses = {name: _names(node) & parts.keys() - {name} for name, node in parts.items()}
    for _ in parts:
        grown = {name: strings[name].union(*(strings[used] for used in uses[name])) for name in parts}
        if grown == strings:
            break
        strings = grown
    return strings


@functools.cache
def tests() -> dict[str, set[str]]:
    """Return the strings in each test: in its body and parameters, and in the helpers of its file that it uses."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        helpers = _helpers(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                used = [helpers[name] for name in _names(node) & helpers.keys() if not name.startswith("test_")]
                found[f"{path.relative_to(ROOT)}::{node.name}"] = _strings(node).union(*used)
    return found


def proofs() -> dict[str, dict[str, list[str]]]:
    """Return the tests that name each word, by kind and word; tests that name the fewest words come first."""
    known = words()
    everything = {word for some in known.values() for word in some}
    named = {test: strings & everything for test, strings in tests().items()}
    table: dict[str, dict[str, list[str]]] = {}
    for kind, some in known.items():
        table[kind] = {
            word: [t for _, t in sorted((len(n), t) for t, n in named.items() if word in n)] for word in some
        }
    return table


def page() -> str:
    """Return the page."""
    lines = [
        "# Tests by error code, frame and cause",
        "",
        "The tests that cover each error code, server frame, pushed event and cause tag. At most "
        f"{SHOWN} tests are listed for each, the most specific first.",
        "Made by `make pages` from the code and the tests; a test keeps it current.",
    ]
    for kind, some in proofs().items():
        lines += ["", f"## {kind}", "", "| word | tests |", "|---|---|"]
        for word, by in some.items():
            lines.append(f"| `{word}` | {'<br>'.join(f'`{test}`' for test in by[:SHOWN])} |")
    return "\n".join(lines) + "\n"


def unproved() -> list[str]:
    """Return the words that no test names."""
    return [word for some in proofs().values() for word, by in some.items() if not by]


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    print(f"{PAGE.relative_to(ROOT)}: {sum(map(len, words().values()))} words, unproved: {unproved() or 'none'}")
