"""The temporary files of a test run: where they are, and that they go."""

import os
import pathlib
import tempfile

import pytest

from tests import memory
from tests.memory import PREFIX, hold, use_memory
from tools.embedded import ports


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return a folder with room, for a process whose TMPDIR is not set."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(memory, "ROOM_BYTES", 1)
    return tmp_path


def test_files_are_created_in_a_folder_that_goes(place: pathlib.Path) -> None:
    remove = use_memory(place)
    assert remove is not None
    (folder,) = place.iterdir()
    assert os.environ["TMPDIR"] == str(folder)
    with tempfile.NamedTemporaryFile(delete=False) as file:
        assert pathlib.Path(file.name).parent == folder
    remove()
    assert list(place.iterdir()) == []
    assert "TMPDIR" not in os.environ
    assert tempfile.gettempdir() != str(folder)


def test_ports_are_shared_with_processes_that_do_not_use_the_folder(
    place: pathlib.Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tmp_path_factory.mktemp("others")
    monkeypatch.setenv(ports.FOLDER, "")
    monkeypatch.delenv(ports.FOLDER)
    monkeypatch.setattr(tempfile, "tempdir", str(others))
    taken = [ports.in_turn(range(1, 10), name="book", is_free=lambda _: True)]
    remove = use_memory(place)
    assert remove is not None
    taken.append(ports.in_turn(range(1, 10), name="book", is_free=lambda _: True))
    remove()
    assert taken == [2, 3]
    assert [one.name for one in others.iterdir()] == [f"book-{os.getuid()}"]


def test_without_room_nothing_changes(place: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "ROOM_BYTES", 2**62)
    for where in (place, place / "missing"):
        assert use_memory(where) is None
        assert "TMPDIR" not in os.environ
    assert list(place.iterdir()) == []


def test_a_chosen_folder_is_respected(place: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/somewhere")
    assert use_memory(place) is None
    assert os.environ["TMPDIR"] == "/somewhere"


def test_what_a_killed_run_has_left_is_removed(place: pathlib.Path) -> None:
    left, running, new = (place / f"{PREFIX}{name}" for name in ("left", "running", "new"))
    for each in (left, running, new):
        (each / "cluster").mkdir(parents=True)
    for old in (left, running):
        os.utime(old, (1, 1))
    lock = hold(running)
    remove = use_memory(place)
    assert remove is not None
    assert {each.name for each in place.iterdir()} == {pathlib.Path(tempfile.gettempdir()).name, running.name, new.name}
    os.close(lock)
    remove()
