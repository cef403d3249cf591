"""The page of proofs is complete and current."""

from tools import proofs


def test_every_cause_tag_event_and_error_code_is_named_by_a_test() -> None:
    assert proofs.unproved() == []


def test_the_page_says_what_the_code_says() -> None:
    assert proofs.PAGE.read_text() == proofs.page(), "run `make pages`"
