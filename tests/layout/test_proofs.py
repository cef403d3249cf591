"""The page of proofs is complete and current."""

import pytest

from tools.pages import proofs

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_every_cause_tag_event_and_error_code_is_named_by_a_test() -> None:
    assert proofs.unproved() == []


def test_page_equals_the_code() -> None:
    assert proofs.PAGE.read_text() == proofs.page(), "run `make pages`"
