"""Every link in the docs, and every mention of a page of docs in code, leads to a file and an anchor that exist."""

import functools
import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SUFFIXES = {".py", ".md", ".js", ".sql", ".ts", ".toml", ".yml", ".html", ".css"}
SKIPPED = {"node_modules", "__pycache__", "build", "dist", "site", "vendor"}
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")
MENTION = re.compile(r"(?<![\w./-])(docs/[\w./-]*[\w-]\.md)(?:#([\w-]+))?")
FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.S | re.M)
ID = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")


def files() -> list[pathlib.Path]:
    """Return the text files of the repository, without environments and what is built."""
    found = []
    for path in sorted(ROOT.iterdir()):
        inside = path.rglob("*") if path.is_dir() else [path]
        if path.name.startswith(".") or path.name in SKIPPED or path.name.endswith(".egg-info"):
            continue
        found += [
            one
            for one in inside
            if one.suffix in SUFFIXES and one.is_file() and not SKIPPED & set(one.relative_to(ROOT).parts)
        ]
    return found


def without_code(text: str) -> str:
    """Return Markdown without code blocks and code spans, which contain no links."""
    text = FENCED.sub("", text)
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)


def anchors_in(text: str) -> set[str]:
    """Return the anchors of a Markdown text: its headings as GitHub names them, and the ids of `<a id>`."""
    found = set(ID.findall(text))
    counts: dict[str, int] = {}
    fenced = FENCED.sub("", text)
    for heading in re.findall(r"^#{1,6} +(.*?) *#* *$", fenced, flags=re.M):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"<[^>]*>", "", heading))
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        counts[anchor] = counts.get(anchor, -1) + 1
        found.add(anchor if counts[anchor] == 0 else f"{anchor}-{counts[anchor]}")
    return found


@functools.cache
def anchors_of(path: pathlib.Path) -> frozenset[str]:
    return frozenset(anchors_in(path.read_text()))


def _problem(target: pathlib.Path, anchor: str) -> str | None:
    if not target.exists():
        return "no such file"
    if anchor and target.suffix == ".md" and anchor not in anchors_of(target):
        return "no such anchor"
    return None


def broken_links(path: pathlib.Path) -> Iterator[str]:
    """Yield the relative links of a Markdown file that lead nowhere."""
    for link in LINK.findall(without_code(path.read_text())):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if problem := _problem(target, anchor):
            yield f"{path.relative_to(ROOT)}: {link}: {problem}"


def broken_mentions(path: pathlib.Path) -> Iterator[str]:
    """Yield the pages of docs that a file mentions from the root, as docs/page.md#anchor, and that do not exist."""
    for name, anchor in MENTION.findall(path.read_text()):
        if problem := _problem(ROOT / name, anchor):
            yield f"{path.relative_to(ROOT)}: {name}#{anchor}: {problem}"


def test_every_relative_link_of_a_page_resolves() -> None:
    pages = [path for path in files() if path.suffix == ".md"]
    assert len(pages) > 10
    assert [problem for path in pages for problem in broken_links(path)] == []


def test_every_mention_of_a_docs_page_resolves() -> None:
    here = pathlib.Path(__file__)
    assert [problem for path in files() if path != here for problem in broken_mentions(path)] == []


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("# The caller's ids", "the-callers-ids"),
        ("## `/ws/chat`", "wschat"),
        ("### session_warning", "session_warning"),
        ("## V1 Encoding, and more (here)", "v1-encoding-and-more-here"),
        ("## See [this](that.md) page", "see-this-page"),
        ('<a id="i1"></a>\n### I1 Once', "i1"),
        ('<a id="i1"></a>\n### I1 Once', "i1-once"),
        ("# Same\n# Same", "same-1"),
    ],
)
def test_anchors_equal_those_of_github(heading: str, anchor: str) -> None:
    assert anchor in anchors_in(heading)


@pytest.mark.parametrize("text", ["```\n# Not a heading\n```", "    \n````\n```\n# Not a heading\n```\n````"])
def test_headings_in_code_blocks_are_not_anchors(text: str) -> None:
    assert "not-a-heading" not in anchors_in(text)


def test_broken_links_and_mentions_are_reported(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("# One\n[a](#one) [b](#two) [c](other.md) [d](https://example.org/x.md) `[e](none.md)`\n")
    code = tmp_path / "code.py"
    code.write_text("# docs/page.md#one docs/page.md#two docs/none.md\n")
    monkeypatch.setitem(broken_links.__globals__, "ROOT", tmp_path)
    assert [problem.split(": ")[1] for problem in broken_links(page)] == ["#two", "other.md"]
    assert [problem.split(": ")[1] for problem in broken_mentions(code)] == ["docs/page.md#two", "docs/none.md#"]
