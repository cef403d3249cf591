"""The service is installed only with packages under allowed licences, and the page lists them all."""

import pytest

from tools.pages import licences
from tools.pages.licences import (
    FILES,
    LAPTOP,
    REVIEWED,
    TRACES_LOCK,
    is_allowed,
    licence_of,
    packages,
    packages_of_traces,
    pins,
)


def test_page_has_every_package() -> None:
    page = licences.page()
    assert [name for name in {**pins(), **pins(TRACES_LOCK)} if f"| {name} | " not in page] == []


def test_every_package_of_the_runtime_lock_has_an_allowed_licence() -> None:
    assert [one for one in packages() if not is_allowed(one.licence)] == []
    assert [one for one in packages_of_traces() if not is_allowed(one.licence)] == []
    assert all(is_allowed(licence_of(name)) for name in LAPTOP)
    assert len(packages()) == len(pins()) > 35


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 AND MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR GPL-2.0-only) AND ISC", False),  # has to be read by people
    ],
)
def test_expression_is_allowed_if_allowed_licences_meet_it(expression: str, allowed: bool) -> None:
    assert is_allowed(expression) is allowed


def test_package_without_a_known_licence_is_named() -> None:
    with pytest.raises(LookupError, match="licence of sqlfluff is unknown"):
        licence_of("sqlfluff")


def test_reviewed_licences_are_of_pinned_packages() -> None:
    assert REVIEWED.keys() <= pins().keys() | pins(TRACES_LOCK).keys() | {*LAPTOP}


def test_vendored_files_are_listed() -> None:
    found = {path for path in (licences.ROOT / "api").rglob("vendor/*") if path.is_file()}
    listed = {licences.ROOT / what.strip("`") for what, _ in FILES if what.startswith("`")}
    assert found == listed
