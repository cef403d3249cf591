"""The page of configuration rows is current."""

from tools import config_page


def test_the_page_says_what_the_keys_say() -> None:
    assert config_page.PAGE.read_text() == config_page.page(), "run `make pages`"
    assert config_page.SETTINGS_PAGE.read_text() == config_page.settings_page(), "run `make pages`"
