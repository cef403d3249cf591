"""The texts of the apps and of the page with three phones: each has an Indonesian one, and no entry is unused."""

import json
import pathlib
import re

import pytest

from api.public.try_apps import FILES
from api.static_files import SHARED
from tests.pages.test_words import STRING, arguments

KIT = FILES.path / "kit"
# What a browser loads together: the folders of modules, and those below which all modules count.
PAGES = {
    "customer": [FILES.path / "customer", KIT, SHARED],
    "mitra": [FILES.path / "mitra", KIT, SHARED],
}
ENTRY = re.compile(rf"^  (?:{STRING}|(\w+)):\s*{STRING},$", re.MULTILINE)


def modules(folders: list[pathlib.Path]) -> str:
    return "\n".join(
        path.read_text() for folder in folders for path in sorted(folder.rglob("*.js")) if "words.id" not in path.name
    )


def entries(files: list[pathlib.Path]) -> list[tuple[str, str]]:
    """Return English text and Indonesian text of dictionaries."""
    pairs = [found for file in files for found in ENTRY.findall(file.read_text())]
    return [
        (json.loads(f'"{quoted}"') if quoted else plain, json.loads(f'"{words}"')) for quoted, plain, words in pairs
    ]


def dictionary(folders: list[pathlib.Path]) -> dict[str, str]:
    found = entries([folder / "words.id.js" for folder in folders])
    keys = [key for key, _ in found]
    assert sorted(key for key in keys if keys.count(key) > 1) == [], "one English text has two entries"
    return dict(found)


def own_scripts() -> str:
    """Return the modules of the page with three phones."""
    return "\n".join(path.read_text() for path in FILES.path.glob("*.js") if "words.id" not in path.name)


@pytest.mark.parametrize("app", PAGES)
def test_every_text_of_an_app_has_an_indonesian_one(app: str) -> None:
    said = {json.loads(f'"{text}"') for text in arguments(modules(PAGES[app]))}
    assert sorted(said - set(dictionary(PAGES[app]))) == []


def test_every_text_of_the_three_phones_has_an_indonesian_one() -> None:
    said = {json.loads(f'"{text}"') for text in arguments(own_scripts() + modules([SHARED]))}
    assert sorted(said - set(dictionary([FILES.path, SHARED]))) == []


@pytest.mark.parametrize("folder", [FILES.path / "customer", FILES.path / "mitra", KIT, FILES.path])
def test_no_entry_is_unused(folder: pathlib.Path) -> None:
    used = own_scripts() if folder == FILES.path else modules([folder])
    literal = {json.loads(f'"{text}"') for text in re.findall(STRING, used)}
    assert sorted(set(dictionary([folder])) - literal) == []


@pytest.mark.parametrize("folder", [FILES.path / "customer", FILES.path / "mitra", KIT, FILES.path])
def test_placeholders_are_the_same_in_both_languages(folder: pathlib.Path) -> None:
    def names(text: str) -> list[str]:
        return sorted(set(re.findall(r"\{(\w+)\}", text)))

    assert [english for english, words in dictionary([folder]).items() if names(english) != names(words)] == []
