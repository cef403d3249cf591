"""Write the sources of the documentation site into build/docs, for `make docs`.

They are the pages of docs, and a page for each file outside docs that a page links to, so that every link works in the
site and a strict build finds broken ones; and the licences. `mkdocs.yml` has the navigation.
"""

import os
import pathlib
import re
import shutil
import sys
from collections.abc import Iterator

from tools.pages import licences

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
BUILD = ROOT / "build" / "docs"
SOURCE = "source"  # the folder in the site for files outside docs
LANGUAGES = {
    ".py": "python",
    ".sql": "sql",
    ".js": "javascript",
    ".cjs": "javascript",
    ".css": "css",
    ".html": "html",
    ".toml": "toml",
}
SKIPPED = {"__pycache__", "node_modules", "vendor"}
# Code blocks and code spans first: links in them are text.
LINK = re.compile(
    r"(?P<code>^(?P<indent> *)(?P<fence>`{3,}).*?^(?P=indent)(?P=fence) *$|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<text>!?\[[^\]]*\]\()(?P<target>[^)\s]+)(?P<rest>(?: \"[^\"]*\")?\))",
    re.S | re.M,
)

# Elements that a browser loads when it shows a page, with the address of another host.
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"?((?:https?:)?//[^\s\">]+)", re.I)


def staged(path: pathlib.Path) -> pathlib.PurePosixPath:
    """Return where the page of a file or folder is, relative to build/docs."""
    if path.is_relative_to(DOCS):
        return pathlib.PurePosixPath(path.relative_to(DOCS))
    page = pathlib.PurePosixPath(SOURCE, path.relative_to(ROOT))
    if path.is_dir():
        return page / "index.md"
    return page if path.suffix == ".md" else page.with_name(f"{page.name}.md")


class Site:
    """The pages written so far, and the files outside docs that still need one."""

    def __init__(self) -> None:
        self.pending: list[pathlib.Path] = []
        self.known: set[pathlib.Path] = set()
        self.broken: list[str] = []

    def need(self, path: pathlib.Path) -> None:
        """Note that a file or folder outside docs needs a page."""
        if path not in self.known:
            self.known.add(path)
            self.pending.append(path)

    def with_links(self, text: str, path: pathlib.Path) -> str:
        """Return Markdown whose links to files outside docs lead to the pages of these files."""

        def link(match: re.Match[str]) -> str:
            if match["code"] or re.match(r"[a-z][a-z0-9+.-]*:|#", match["target"]):
                return match[0]
            name, hash_, anchor = match["target"].partition("#")
            target = (path.parent / name).resolve()
            if not target.exists() or not target.is_relative_to(ROOT):
                self.broken.append(f"{path.relative_to(ROOT)}: {match['target']}: no such file")
                return match[0]
            if not target.is_relative_to(DOCS):
                self.need(target)
            place = os.path.relpath(staged(target), staged(path).parent)
            return f"{match['text']}{place}{hash_}{anchor}{match['rest']}"

        return LINK.sub(link, text)

    def page(self, path: pathlib.Path) -> str:
        """Return the page of a file or folder."""
        if path.is_dir():
            return self._folder(path)
        if path.suffix == ".md":
            return self.with_links(path.read_text(), path)
        return _code(path)

    def _folder(self, path: pathlib.Path) -> str:
        inside = sorted(one for one in path.iterdir() if one.name not in SKIPPED and not one.name.startswith("."))
        inside = [one for one in inside if one.is_dir() or one.suffix in LANGUAGES or one.suffix == ".md"]
        for one in inside:
            self.need(one)
        links = (f"- [{one.name}]({os.path.relpath(staged(one), staged(path).parent)})\n" for one in inside)
        return _unlisted(f"# {path.relative_to(ROOT)}\n\n{''.join(links)}")

    def write(self) -> list[str]:
        """Write all pages, and those of the files that they link to. Return the links that lead nowhere."""
        shutil.rmtree(BUILD, ignore_errors=True)
        shutil.copytree(DOCS, BUILD)
        for path in sorted(DOCS.rglob("*.md")):
            (BUILD / staged(path)).write_text(self.with_links(path.read_text(), path))
        (BUILD / "licences.md").write_text(self.with_links(licences.page(), DOCS / "licences.md"))
        for name in re.findall(rf"\b{SOURCE}/(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M):
            self.need(ROOT / name)
        while self.pending:
            path = self.pending.pop()
            page = BUILD / staged(path)
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(self.page(path))
        return self.broken


def _unlisted(text: str) -> str:
    return f"---\nsearch:\n  exclude: true\n---\n\n{text}"


def _code(path: pathlib.Path) -> str:
    text = path.read_text()
    fence = "`" * (max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1)
    return _unlisted(f"# {path.relative_to(ROOT)}\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text}\n{fence}\n")


def outside(site: pathlib.Path) -> Iterator[str]:
    """Yield what the pages of a built site load from other hosts."""
    for page in sorted(site.rglob("*.html")):
        for address in LOADED.findall(page.read_text()):
            yield f"{page.relative_to(site)}: loads {address}"


def main() -> int:
    """Write the sources of the site, or with `check` look through the built site. Return 1 after a problem."""
    problems = list(outside(ROOT / "site")) if sys.argv[1:] == ["check"] else Site().write()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
