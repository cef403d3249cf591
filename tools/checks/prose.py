"""Find the marks of unclear English in docstrings, comments, messages to clients and docs (CONTRIBUTING.md, Prose)."""

import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import attrs

from core.storage import migrations
from tools.checks.new_migration import is_sealed

ROOT = Path(__file__).parents[2]
LEFT_OUT = frozenset({"build", "dist", "site", "node_modules", "vendor", "__pycache__"})
SUFFIXES = frozenset({".py", ".sql", ".md", ".js", ".css"})
PATTERNS = {
    "name the actor": re.compile(r"\b(whoever|whomever|whom|somebody|nobody|anybody|everybody)\b", re.I),
    "no clause as a noun": re.compile(
        r"(?:^|[.;:] )(?:What|Who|Whom|That) (?!is so\b)(?:is|was|are|were|comes|came|has|had|can|could|may|does|did|no)\b(?![^.]*\?)"
    ),
    "no 'is none', 'is no X'": re.compile(r"(?<!There )(?<!there )\bis (?:none|no (?!longer\b|more than\b)[a-z]+)\b"),
    "no 'anew', 'beside', 'meanwhile'": re.compile(r"\b(?:anew|beside|meanwhile)\b", re.I),
    "no 'so many', 'so long'": re.compile(r"\bso (?:many|long|much)\b", re.I),
    "no 'of its own', 'by itself'": re.compile(r"\b(?:one's own|of (?:its|their|her|his) own|by itself)\b", re.I),
    "no 'any more', 'for ever'": re.compile(r"\b(?:any more|for ever)\b(?! than)", re.I),
    "users are 'they' or 'the mitra'": re.compile(r"\b(?:she|hers?|his|him)\b", re.I),
    "no 'told', 'heard', 'brought up'": re.compile(r"\b(?:told|hears?|heard|bring up|brought up|taken for)\b", re.I),
    "no 'Of X, …'": re.compile(r"(?:^|\. )Of (?:whom|what|a|the|two|five)\b"),
    "link to a page in docs": re.compile(
        r"\((?:the )?(?:contract|specification|reliability|style|layout)\b(?!\.md)[^)]*\)"
    ),
}


@attrs.frozen
class ProseMark:
    """A place where a text breaks a rule."""

    path: str
    line: int
    rule: str
    text: str


def texts(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield each text of a file that people read, with its line."""
    suffix = Path(path).suffix
    if suffix == ".py":
        yield from _python(source)
    elif suffix == ".md":
        yield from _markdown(source)
    else:
        comment = {".sql": r"--(.*)", ".js": r"(?:^|\s)//\s*(.*)|^\s*/?\*+\s*(.*)", ".css": r"/\*(.*)\*/"}[suffix]
        for number, line in enumerate(source.splitlines(), 1):
            if found := re.search(comment, line):
                yield number, next(group for group in found.groups() if group is not None)


def _python(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if text := ast.get_docstring(node):
                yield getattr(node, "lineno", 1), text
        elif isinstance(node, ast.keyword) and node.arg == "en":  # the English of a message to clients
            parts = [one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)]
            yield node.value.lineno, " ".join(str(part) for part in parts)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.search(r"noqa|fmt:|type:", token.string):
            yield token.start[0], token.string.lstrip("# ")


def _markdown(source: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            for part in line.strip("|").split("|") if line.startswith("|") else [line]:
                yield number, part.strip()


def marks_of(path: str, source: str) -> Iterator[ProseMark]:
    """Yield the marks of one file."""
    for line, text in texts(path, source):
        words = " ".join(re.sub(r"`[^`]*`", "", text).split())  # code has names, not prose
        for rule, pattern in PATTERNS.items():
            for _ in pattern.findall(words):
                yield ProseMark(path, line, rule, words)


def files() -> list[str]:
    """Return the files that the check reads. Sealed migrations can't be changed and are left out."""
    sealed = {path for path in migrations.files().values() if is_sealed(path.read_text())}
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in LEFT_OUT)
        for name in sorted(names):
            path = Path(folder) / name
            if path.suffix in SUFFIXES and path not in sealed:
                found.append(path.relative_to(ROOT).as_posix())
    return found


def check() -> list[ProseMark]:
    """Return the marks in the repository."""
    return [mark for path in files() for mark in marks_of(path, (ROOT / path).read_text())]


def main() -> int:
    """Check the repository; return 1 if a text has a mark."""
    found = check()
    for mark in found:
        print(f"{mark.path}:{mark.line}: {mark.rule}: {mark.text[:100]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
