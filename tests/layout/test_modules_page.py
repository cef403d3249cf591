"""docs/modules.md is current, and every module has a first sentence."""

from tools.pages import modules_page


def test_page_equals_the_docstrings() -> None:
    assert modules_page.PAGE.read_text() == modules_page.page(), "run `make pages`"


def test_every_module_has_a_first_sentence() -> None:
    paths = [path for paths in modules_page.modules().values() for path in paths]
    assert len(paths) > 200
    assert [str(path) for path in paths if not modules_page.first_sentence(path)] == []


def test_every_package_is_on_the_page() -> None:
    assert {folder.split("/")[0] for folder in modules_page.modules()} == set(modules_page.PACKAGES)
