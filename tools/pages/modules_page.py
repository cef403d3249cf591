"""Write docs/modules.md: every module of the service with the first sentence of its docstring."""

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "modules.md"
PACKAGES = ("api", "realtime", "jobs", "core", "tools")
HEAD = """# Modules

Every module, with the first sentence of its docstring. [architecture.md](architecture.md#domains) says what a package may
import, and [where things are](architecture.md#where-is-it).

Made by `make pages` from the docstrings, with `tools/pages/modules_page.py`; a test keeps it current.
"""
NEXT_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z`])")
MENTION = re.compile(r"docs/([\w-]+\.md(?:#[\w-]+)?)")


def modules() -> dict[str, list[pathlib.Path]]:
    """Return the modules with code of each folder, as paths from the root: folder -> modules in order."""
    found: dict[str, list[pathlib.Path]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.read_text().strip():
                found.setdefault(path.parent.relative_to(ROOT).as_posix(), []).append(path.relative_to(ROOT))
    return dict(sorted(found.items(), key=lambda item: (PACKAGES.index(item[0].split("/")[0]), item[0])))


def first_sentence(path: pathlib.Path) -> str:
    """Return the first sentence of a module's docstring, in one line, with links to the pages that it mentions."""
    docstring = ast.get_docstring(ast.parse((ROOT / path).read_text())) or ""
    text = " ".join(docstring.split("\n\n")[0].split())
    sentence = NEXT_SENTENCE.split(text, maxsplit=1)[0].replace("|", "\\|")
    return MENTION.sub(r"[\1](\1)", sentence)


def page() -> str:
    """Return the page."""
    lines = [HEAD]
    for folder, paths in modules().items():
        lines += [f"## {folder}", "", "| module | what it holds |", "|---|---|"]
        lines += [f"| [{path.name}](../{path.as_posix()}) | {first_sentence(path)} |" for path in paths]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE.name}: {sum(map(len, modules().values()))} modules")
