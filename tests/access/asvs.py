"""Read the table of ASVS 5.0 requirements, levels 1 and 2, and write it into docs/asvs.md.

Run it with `python -m tests.access.asvs`. `asvs.txt` in this folder holds the rows: ids, the requirement in our own
words, a status, and the evidence, which is the name of a test or a sentence.
"""

import ast
import pathlib
import re

import attrs

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "asvs.md"
BEGIN, END = "<!-- asvs: made by `make pages` -->\n", "<!-- end of asvs -->\n"
COUNT = 253  # requirements of levels 1 and 2 in ASVS 5.0.0
STATUSES = {
    "met": "met",
    "part": "in part",
    "proxy": "by the proxy or platform",
    "open": "not met yet",
    "none": "does not apply",
}
TEST = re.compile(r"(?:\w+/)+\w+\.py(::\w+)?")


@attrs.frozen
class Row:
    """One row: requirements that share one answer."""

    chapter: str
    ids: tuple[str, ...]
    requirement: str
    status: str
    evidence: tuple[str, ...]

    @property
    def tests(self) -> list[str]:
        """Return those items of the evidence that name a test."""
        return [item for item in self.evidence if TEST.fullmatch(item)]


def rows() -> list[Row]:
    """Return all rows of the data file, in its order."""
    found, chapter = [], ""
    for line in (HERE / "asvs.txt").read_text().splitlines():
        if line.startswith("## "):
            chapter = line.removeprefix("## ")
        elif line and not line.startswith("#"):
            ids, requirement, status, evidence = (part.strip() for part in line.split("|"))
            found.append(
                Row(
                    chapter, tuple(ids.split(", ")), requirement, status, tuple(re.split(r";\s*", evidence.rstrip(";")))
                )
            )
    return found


def missing() -> list[str]:
    """Return the tests that rows name but that do not exist."""
    return [test for row in rows() for test in row.tests if not _exists(test)]


def _exists(test: str) -> bool:
    file, _, name = test.partition("::")
    path = ROOT / "tests" / file
    if not path.exists() or not name:
        return path.exists()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(node, functions) and node.name == name for node in ast.walk(ast.parse(path.read_text())))


def section() -> str:
    """Return the tables of the page."""
    lines, chapter = [], ""
    for row in rows():
        if row.chapter != chapter:
            chapter = row.chapter
            lines += ["", f"## {chapter}", "", "| requirement | what | status | evidence |", "|---|---|---|---|"]
        evidence = "<br>".join(f"`{item}`" if item in row.tests else item for item in row.evidence)
        lines.append(f"| {', '.join(row.ids)} | {row.requirement} | {STATUSES[row.status]} | {evidence} |")
    return "\n".join(lines[1:]) + "\n"


def page(text: str) -> str:
    """Return `text` with the section replaced. Raises ValueError if the page has no section to replace."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError("docs/asvs.md must hold the two markers of the table")
    return before + BEGIN + section() + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
