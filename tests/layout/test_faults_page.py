"""The page of faults is complete and current: each row names tests and faults that exist."""

from tests.faults import table


def test_every_fault_is_proved_by_something_that_exists() -> None:
    assert table.missing() == []


def test_the_page_says_what_the_table_says() -> None:
    assert table.PAGE.read_text() == table.page(), "run `make pages`"
