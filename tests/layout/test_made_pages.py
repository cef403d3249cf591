"""The pages and files that are made from the code are current."""

import pytest

from tools.pages.__main__ import FILES, PARTS, ROOT, made, with_parts


@pytest.mark.parametrize("name", [*PARTS, *FILES])
def test_what_is_made_from_the_code_is_current(name: str) -> None:
    assert (ROOT / name).read_text() == made(name), "run `make pages`"


@pytest.mark.parametrize("text", ["", "<!-- a -->\n<!-- end -->\n<!-- b -->\n<!-- end -->\n"])
def test_page_without_a_marker_or_with_an_unknown_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="for each of a"):
        with_parts(text, {"a": ""})
