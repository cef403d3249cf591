"""SQL files are well formed, and each statement in them is used by the module next to them."""

import ast
import pathlib

import pytest

from core.storage import sql_files
from tests.each import for_each

ROOT = pathlib.Path(__file__).parents[2]
MODULES = sorted(path for path in (ROOT / "core").rglob("*.py") if path.with_suffix(".sql").exists())
TWO = """-- name: expire_due
-- Expire what is due.
-- It may be repeated.
UPDATE things
SET status = 'expired' -- not deleted
WHERE expires_at <= $1;

-- name: count_open
SELECT count(*) FROM things;
"""


def used_names(path: pathlib.Path) -> set[str]:
    """Return each `name` that a module takes as `SQL["name"]`."""
    return {
        node.slice.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "SQL"
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    }


def load(folder: pathlib.Path, text: str) -> dict[str, str]:
    (folder / "store.sql").write_text(text)
    return dict(sql_files.load(str(folder / "store.py")))


def test_load_returns_the_sql_without_its_header_and_semicolon(tmp_path: pathlib.Path):
    assert load(tmp_path, TWO) == {
        "expire_due": "UPDATE things\nSET status = 'expired' -- not deleted\nWHERE expires_at <= $1",
        "count_open": "SELECT count(*) FROM things",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1;\n" + TWO, "before the first statement"),
        (TWO + "-- name: expire_due\nSELECT 1;\n", "expire_due is declared twice"),
        ("-- name: expire_due\nSELECT 1\n", "end expire_due with a semicolon"),
        ("-- name: expire_due\n-- Nothing follows.\n", "end expire_due with a semicolon"),
    ],
)
def test_load_of_a_malformed_file_raises_value_error(tmp_path: pathlib.Path, text: str, message: str):
    with pytest.raises(ValueError, match=message):
        load(tmp_path, text)


def test_every_sql_file_of_core_is_next_to_its_module():
    """The audit's rules are the exception: tests/layout/test_invariants_page.py checks them."""
    audit = ROOT / "core" / "desk" / "ledger"
    files = {path.with_suffix(".py") for path in (ROOT / "core").rglob("*.sql") if path.parent != audit}
    assert files == set(MODULES)


@for_each("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_uses_exactly_the_statements_of_its_sql_file(path: pathlib.Path):
    assert used_names(path) == set(sql_files.load(str(path)))
