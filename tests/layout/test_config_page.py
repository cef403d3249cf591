"""The page of configuration rows is current."""

from tools.pages import config_page


def test_page_equals_the_configuration_keys() -> None:
    assert config_page.PAGE.read_text() == config_page.page(), "run `make pages`"
    assert config_page.SETTINGS_PAGE.read_text() == config_page.settings_page(), "run `make pages`"
