"""The page of faults is complete and current: each row names tests and faults that exist."""

from tests.faults import table


def test_every_proof_of_a_fault_exists() -> None:
    assert table.missing() == []


def test_page_equals_the_table() -> None:
    assert table.PAGE.read_text() == table.page(), "run `make pages`"
