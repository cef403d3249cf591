"""Piccolo's queries are built once, at import, because building one costs more client time than running it."""

import ast
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[2]
MODULES = sorted(
    path for path in (ROOT / "core").rglob("*.py") if path.name != "tables.py" and path.parent.name != "storage"
)


def builders_in_functions(tree: ast.Module) -> Iterator[str]:
    """Return each use, in a function, of a table or of a function that builds a query."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (node.module == "core.storage.statements" and alias.name != "Statement")
        or (node.module or "").endswith(".tables")
        or alias.name == "tables"
    }
    imported |= {  # short names of tables: `T = tables.Customer`
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(n, ast.Name) and n.id in imported for n in ast.walk(node.value))
        and isinstance(node.value, ast.Attribute | ast.Name)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                for node in ast.walk(statement):
                    if isinstance(node, ast.Name) and node.id in imported:
                        yield f"{function.name}: {node.id}"


def test_no_function_builds_a_query():
    found = {str(path.relative_to(ROOT)): list(builders_in_functions(ast.parse(path.read_text()))) for path in MODULES}
    assert len(found) > 100
    assert {path: uses for path, uses in found.items() if uses} == {}


def test_query_in_a_function_is_found():
    text = """
from core.accounts.mitras import tables
from core.storage.statements import p, statement
T = tables.Mitra
GET = statement(T.select().where(T.id == p.id))
async def get(tx):
    return await GET.one(tx, id=statement(T.select()))
"""
    assert list(builders_in_functions(ast.parse(text))) == ["get: statement", "get: T"]
