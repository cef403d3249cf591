"""Closed fallback files are rewritten in one step: a process may die at any line."""

import pathlib
import subprocess
import sys

import pytest

from core.providers import webhook_files

LINES = [f"line {n}\n".encode() for n in range(7)] + [b"cut"]
DYING = """
import os, pathlib, sys
from core.providers import webhook_files
left = int(sys.argv[2])
def change(line):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return line.upper()
webhook_files.rewrite(pathlib.Path(sys.argv[1]), change)
"""


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "kept-2026-01-02.jsonl"
    made.write_bytes(b"".join(LINES))
    return made


def test_each_line_is_changed_and_read_in_parts(path: pathlib.Path) -> None:
    assert webhook_files.rewrite(path, bytes.upper)
    assert path.read_bytes() == b"".join(LINES).upper()
    assert path.stat().st_mode & 0o777 == 0o600
    lines, end = webhook_files.read_part(path, begin=0)
    assert b"".join(lines) == path.read_bytes()
    assert webhook_files.read_part(path, begin=end) == ([], end)


@pytest.mark.parametrize("lines", range(len(LINES)))
def test_process_that_dies_at_a_line_leaves_the_old_file(path: pathlib.Path, lines: int) -> None:
    done = subprocess.run([sys.executable, "-c", DYING, str(path), str(lines)], check=False)
    assert done.returncode == 9
    assert path.read_bytes() == b"".join(LINES)
    assert [one for one in path.parent.iterdir() if one.name.endswith(webhook_files.NEW)]
    webhook_files.remove_leftovers(path.parent)
    assert not [one for one in path.parent.iterdir() if one.name.endswith(webhook_files.NEW)]
    assert webhook_files.rewrite(path, bytes.upper)
    assert path.read_bytes() == b"".join(LINES).upper()


def test_file_that_grows_is_left_for_later(path: pathlib.Path) -> None:
    def change(line: bytes) -> bytes:
        if line == LINES[0]:
            with path.open("ab") as file:
                file.write(b"late\n")
        return line.upper()

    assert not webhook_files.rewrite(path, change)
    assert path.read_bytes() == b"".join(LINES) + b"late\n"


def test_only_one_process_rewrites(path: pathlib.Path) -> None:
    def change(line: bytes) -> bytes:
        assert not webhook_files.rewrite(path, bytes.lower)
        return line.upper()

    assert webhook_files.rewrite(path, change)
    assert path.read_bytes() == b"".join(LINES).upper()


def test_disk_that_fails_leaves_the_old_file(path: pathlib.Path) -> None:
    def change(_: bytes) -> bytes:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        webhook_files.rewrite(path, change)
    assert path.read_bytes() == b"".join(LINES)
