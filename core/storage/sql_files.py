"""Load the named statements of a module's SQL file."""

import pathlib
import re
import types
from collections.abc import Mapping

NAME = re.compile(r"^-- name: (\w+)[ \t]*\n", re.MULTILINE)
HEAD = re.compile(r"\A(--.*\n|\s)*")


def load(module: str) -> Mapping[str, str]:
    """Return the statements of the SQL file next to a module, by name: those of `store.sql` for `store.py`.

    `module` is the module's `__file__`. In the file, a statement begins with the line `-- name: expire_due`. Comments
    that say what it answers follow, then the SQL, which ends with a semicolon; the result has the SQL alone. Raises
    ValueError for text before the first name, a name that is declared twice, or a statement without a semicolon.
    """
    path = pathlib.Path(module).with_suffix(".sql")
    before, *parts = NAME.split(path.read_text(encoding="utf-8"))
    if before.strip():
        raise ValueError(f"{path.name}: write `-- name: …` before the first statement")
    found: dict[str, str] = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        sql = HEAD.sub("", text).rstrip()
        if name in found:
            raise ValueError(f"{path.name}: {name} is declared twice")
        if not sql.endswith(";"):
            raise ValueError(f"{path.name}: end {name} with a semicolon")
        found[name] = sql.removesuffix(";")
    return types.MappingProxyType(found)
