"""One test of many cases runs them all, and names each that fails."""

import pytest

from tests.each import for_each


def test_each_case_runs_and_each_failure_has_its_name() -> None:
    seen = []

    @for_each("number", [1, 2, 3, 4], ids=str)
    def is_odd(number: int) -> None:
        seen.append(number)
        assert number % 2

    with pytest.raises(ExceptionGroup, match="2 of 4 cases failed") as failed:
        is_odd()
    assert seen == [1, 2, 3, 4]
    assert [error.__notes__ for error in failed.value.exceptions] == [["the case: 2"], ["the case: 4"]]
