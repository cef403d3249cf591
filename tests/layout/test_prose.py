"""The check of prose finds each mark, and reads every text of the repository."""

from pathlib import Path

import pytest

from tools.checks import prose

MARKED = {
    "name the actor": "Whoever asks gets it.",
    "no clause as a noun": "What is stored is sent again.",
    "no 'is none', 'is no X'": "A lost answer is no failure.",
    "no 'anew', 'beside', 'meanwhile'": "The token is made anew.",
    "no 'so many', 'so long'": "It waits so long.",
    "no 'of its own', 'by itself'": "It has a clock of its own.",
    "no 'any more', 'for ever'": "It is not used any more.",
    "users are 'they' or 'the mitra'": "The mitra gets her request.",
    "no 'told', 'heard', 'brought up'": "The other party is told.",
    "no 'Of X, …'": "Of what is due, the oldest comes first.",
    "link to a page in docs": "Return the rounds (contract 5).",
}
PLAIN = (
    "Return the session.",
    "There is no limit for webhooks.",
    "The request is no longer open.",
    "Return None if the row is None.",
    "It accepts no more than 20 rows, any more than that is an error.",
    "`told` is a parameter's name.",
)


def marks(path: str, source: str) -> list[prose.ProseMark]:
    return list(prose.marks_of(path, source))


@pytest.mark.parametrize("rule", MARKED)
def test_mark_is_found_in_each_kind_of_text(rule: str) -> None:
    text = MARKED[rule]
    sources = {
        "a.py": [f'"""{text}"""', f"# {text}\n", f'Text(en="{text}", id="Ini")', f'def f():\n    """{text}"""'],
        "a.sql": [f"SELECT 1; -- {text}"],
        "a.js": [f"const a = 1; // {text}", f"/** {text} */"],
        "a.css": [f"/* {text} */"],
        "a.md": [text, f"| {text} |"],
    }
    for path, each in sources.items():
        for source in each:
            assert [mark.rule for mark in marks(path, source)] == [rule], source


@pytest.mark.parametrize("text", PLAIN)
def test_plain_text_has_no_mark(text: str) -> None:
    assert marks("a.md", text) == []


def test_code_in_a_page_has_no_mark() -> None:
    assert marks("a.md", "```\nwhoever = 1\n```\n") == []
    assert marks("a.py", "nobody = 1\n") == []


def test_sealed_migrations_are_left_out_and_all_other_texts_are_read() -> None:
    found = {Path(path).parts[0] for path in prose.files()}
    assert {"api", "core", "docs", "jobs", "realtime", "tests", "tools", "README.md"} <= found
    assert not [path for path in prose.files() if path.startswith("piccolo_migrations/0")]
