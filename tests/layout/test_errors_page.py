"""docs/errors.md is complete: each code has its condition and advice, and each route that it names exists."""

import re

from core.base.errors import Kind, Repeat
from core.pairing.rules import Response
from core.settings import settings
from tools.pages import errors_page

PAGES = ("product.md", "events.md", "errors.md", "glossary.md", "security.md")  # what apps and operators read


def test_every_code_has_its_condition_and_advice_in_sentences() -> None:
    for name, code in errors_page.codes().items():
        assert code.when.endswith("."), name
        assert "  " not in code.when, name
        assert code.advice.endswith("."), name


def test_codes_that_advise_a_wait_are_those_with_retry_after() -> None:
    waits = {errors_page.STATUS[kind] for kind in (Kind.TOO_SOON, Kind.LOCKED, Kind.CONFLICT)}
    for name, code in errors_page.codes().items():
        assert code.repeat is not Repeat.WAIT or code.status in waits, name


def test_routes_name_only_codes_of_the_page() -> None:
    assert errors_page.routes().keys() <= errors_page.codes().keys()


def test_every_code_that_a_page_names_exists() -> None:
    known = {*errors_page.codes(), *settings.names(), *settings.file_names(), *(one.value for one in Response)}
    unknown = [
        f"{path.name}: {word}"
        for path in map((errors_page.ROOT / "docs").joinpath, PAGES)
        for word in re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", path.read_text())
        if word not in known
    ]
    assert unknown == []
