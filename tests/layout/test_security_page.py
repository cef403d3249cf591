"""docs/security.md is complete and current: every limit, every ASVS requirement, and evidence that exists."""

import re

from core.config.keys import KEYS
from core.settings import settings
from tests.access import asvs
from tests.layout.test_layout import FILES

LIMIT = re.compile(r"""LIMITED\.labels\(\s*"([a-z0-9_]+)"|\bLimit\(\s*name="([a-z0-9_]+)""")
ROW = re.compile(r"^\| `([a-z0-9_]+)` \|(.*)$", re.MULTILINE)
NAME = re.compile(r"`([A-Z][A-Z0-9_]{3,})`|`([a-z]+_[a-z0-9_]+)`")


def limits_of_the_page() -> dict[str, str]:
    """Return the rows of the page's table of limits, by the limit's name."""
    table = (asvs.ROOT / "docs" / "security.md").read_text().partition("## Limits")[2].partition("\n## ")[0]
    return dict(ROW.findall(table))


def test_limits_on_the_page_equal_those_in_the_code() -> None:
    code = "\n".join(path.read_text() for path in FILES)
    on_page = set(limits_of_the_page())
    assert {one or other for one, other in LIMIT.findall(code)} <= on_page
    assert [name for name in on_page if f'"{name}"' not in code] == []


def test_every_setting_and_row_that_a_limit_names_exists() -> None:
    known = settings.names() | set(KEYS)
    for name, row in limits_of_the_page().items():
        bound = row.split("|")[1]  # the column with settings and configuration rows
        for upper, lower in NAME.findall(bound):
            assert (upper or lower) in known, f"{name}: {upper or lower}"


def test_every_asvs_requirement_has_one_answer() -> None:
    ids = [each for row in asvs.rows() for each in row.ids]
    assert len(ids) == len(set(ids)) == asvs.COUNT


def test_every_asvs_answer_has_a_known_status_and_existing_evidence() -> None:
    assert {row.status for row in asvs.rows()} <= set(asvs.STATUSES)
    assert all(all(row.evidence) for row in asvs.rows())
    assert [item for row in asvs.rows() for item in row.evidence if ".py" in item and item not in row.tests] == []
    assert asvs.missing() == []


def test_page_equals_the_table() -> None:
    text = asvs.PAGE.read_text()
    assert text == asvs.page(text), "run `make pages`"
