"""docs/architecture.md and the decisions name only files, locks and signals that exist."""

import importlib
import pathlib
import re
from collections.abc import Iterator

import pytest

from core.events import signals
from core.storage.locks import AdvisoryLock
from core.storage.statements import Statement

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "architecture.md").read_text()
PAGES = sorted([DOCS / "architecture.md", *(DOCS / "decisions").glob("*.md")])
PATH = re.compile(r"`((?:core|api|realtime|jobs|tools|tests|piccolo_migrations)/[\w./-]+)`")
# A statement that waits for rows: the table after its last FROM. Sweeps skip locked rows, and are not in the order.
WAITING = re.compile(
    r'FROM (?!unnest)"?(\w+)(?:(?!FROM )[^;])*?FOR (?:NO KEY )?UPDATE(?! (?:OF [\w, ]+ )?SKIP LOCKED)', re.S
)
MOST_ARROWS = 12  # of a diagram: more can't be taken in at a glance


def section(name: str) -> str:
    """Return the text below a heading of the second level."""
    return PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_that_a_page_names_exists(page: pathlib.Path) -> None:
    assert [name for name in PATH.findall(page.read_text()) if not (ROOT / name).exists()] == []


def test_every_diagram_is_small() -> None:
    diagrams = re.findall(r"```mermaid\n(.*?)```", PAGE, re.S)
    assert len(diagrams) == 3
    assert max(len(re.findall(r"-?->>", diagram)) for diagram in diagrams) <= MOST_ARROWS


def test_lock_order_has_every_advisory_lock() -> None:
    listed = re.findall(r"`([A-Z]+(?:_[A-Z]+)*)`", section("Lock order"))
    assert sorted(listed) == sorted(lock.name for lock in AdvisoryLock)


def test_processes_work_through_a_pooler_that_keeps_no_session() -> None:
    of_session = re.compile(r"pg_(?:try_)?advisory_(?:un)?lock|\bLISTEN \w|\bSET SESSION\b|\bCREATE TEMP")
    files = (path for folder in ("api", "core", "jobs", "realtime") for path in (ROOT / folder).rglob("*"))
    code = [path for path in files if path.suffix in (".py", ".sql")]
    assert [str(path) for path in code if of_session.search(path.read_text())] == []


def test_advisory_locks_are_taken_by_their_enum() -> None:
    """A statement with a literal number could share another lock's number."""
    sources = [path for package in ("core", "api", "realtime", "jobs") for path in (ROOT / package).rglob("*.py")]
    code = {path: path.read_text() for path in sources if path.name != "locks.py"}
    assert [str(path) for path, text in code.items() if re.search(r"advisory_(?:xact_)?lock\w*\(\d", text)] == []
    used = set(re.findall(r"AdvisoryLock\.([A-Z_]+)", "".join(code.values())))
    assert used == set(AdvisoryLock.__members__)


def compiled_statements() -> Iterator[str]:
    """Return the SQL of every statement that Piccolo has compiled for a module of core."""
    for path in sorted((ROOT / "core").rglob("*.py")):
        if "core.storage.statements import" in path.read_text():
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            for value in vars(module).values():
                found = value.values() if isinstance(value, dict) else [value]
                yield from (one.sql for one in found if isinstance(one, Statement))


def test_lock_order_has_every_table_whose_row_locks_are_waited_for() -> None:
    files = [path.read_text() for suffix in ("py", "sql") for path in sorted((ROOT / "core").rglob(f"*.{suffix}"))]
    tables = set(WAITING.findall(";".join([*files, *compiled_statements()])))
    assert {"customers", "mitras", "chat_sessions", "payment_requests", "auth_sessions"} <= tables
    assert [table for table in sorted(tables) if f"`{table}`" not in section("Lock order")] == []


def test_every_signal_of_the_page_exists() -> None:
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", section("Signals")))
    assert len(named) > 5
    assert [name for name in named if not hasattr(signals, name)] == []
