"""The documentation site has every page of docs, links that work, and nothing from other hosts."""

import pathlib
import re

import pytest

from tools.pages import docs_site
from tools.pages.docs_site import DOCS, ROOT, Site, outside, staged

CONFIG = (ROOT / "mkdocs.yml").read_text()
MADE = re.compile(r"<!-- [\w :`]+ -->\n.*?<!-- end[\w ]* -->\n", re.S)  # from code; looked up, not read


def test_every_page_of_docs_is_in_the_navigation_once() -> None:
    named = re.findall(r"([\w./-]+\.md)$", CONFIG.partition("\nnav:\n")[2], flags=re.M)
    # `make docs` makes the last two.
    pages = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")] + ["client-api.md", "licences.md"]
    assert sorted(name for name in named if not name.startswith("source/")) == sorted(pages)


def test_settings_name_no_other_host() -> None:
    assert re.findall(r"https?://\S+", CONFIG) == []
    assert "font: false" in CONFIG


def test_pages_for_reading_have_at_most_75_000_words() -> None:
    pages = [path for path in DOCS.rglob("*.md") if not path.is_relative_to(DOCS / "api")]
    pages += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    words = [word for path in pages for word in MADE.sub("", path.read_text()).split() if re.search(r"\w", word)]
    assert len(words) <= 75_000


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("docs/scale.md", "[x](protocol.md#http)", "[x](protocol.md#http)"),
        ("docs/scale.md", "[x](../tools/cli.py)", "[x](source/tools/cli.py.md)"),
        ("docs/decisions/README.md", "[x](../../tools/cli.py)", "[x](../source/tools/cli.py.md)"),
        ("docs/scale.md", "[x](../tests/faults)", "[x](source/tests/faults/index.md)"),
        ("docs/scale.md", "[x](../README.md#top)", "[x](source/README.md#top)"),
        ("README.md", "[x](docs/protocol.md)", "[x](../protocol.md)"),
        ("docs/scale.md", "`[x](../tools/cli.py)`", "`[x](../tools/cli.py)`"),
        ("docs/scale.md", "```\n[x](../tools/cli.py)\n```", "```\n[x](../tools/cli.py)\n```"),
        ("docs/scale.md", "[x](https://example.org/x.md)", "[x](https://example.org/x.md)"),
    ],
)
def test_links_out_of_docs_lead_to_pages_of_the_site(path: str, text: str, expected: str) -> None:
    assert Site().with_links(text, ROOT / path) == expected


def test_linked_file_gets_a_page() -> None:
    site = Site()
    site.with_links("[x](../tools/cli.py) [x](protocol.md)", DOCS / "scale.md")
    assert site.pending == [ROOT / "tools" / "cli.py"]
    assert str(staged(site.pending[0])) == "source/tools/cli.py.md"
    assert site.page(site.pending[0]).startswith("---\nsearch:\n  exclude: true\n---\n\n# tools/cli.py\n\n```python\n")


def test_link_to_a_missing_file_is_reported() -> None:
    site = Site()
    site.with_links("[x](../none.py) ![y](none.png)", DOCS / "scale.md")
    assert site.broken == ["docs/scale.md: ../none.py: no such file", "docs/scale.md: none.png: no such file"]


def test_code_with_fences_stays_one_block(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_site, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text('"""\n```\n"""\n')
    assert Site().page(tmp_path / "a.py").endswith('````python\n"""\n```\n"""\n\n````\n')


def test_what_a_page_loads_from_another_host_is_reported(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://a.example/">x</a> <script src="b.js"></script> <script async src="https://c.example/d.js">'
        "<img src=//e.example/f.png>"
    )
    assert list(outside(tmp_path)) == ["a.html: loads https://c.example/d.js", "a.html: loads //e.example/f.png"]
