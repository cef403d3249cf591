"""Read and rewrite closed fallback files of this machine (docs/privacy.md#the-fallback-file).

A process may die at any line: the new file takes the place of the old one in one step, and is complete by then.
"""

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Callable, Iterator

PART = 1_048_576  # bytes of lines in one part
NEW, LOCK = ".rewritten", ".lock"


def read_part(path: pathlib.Path, *, begin: int) -> tuple[list[bytes], int]:
    """Return whole lines from an offset on, about PART bytes, and the offset behind them. No lines: this is the end."""
    with path.open("rb") as file:
        file.seek(begin)
        lines = file.readlines(PART)
        return lines, file.tell()


@contextlib.contextmanager
def _only_writer(folder: pathlib.Path) -> Iterator[bool]:
    """Hold the lock of a folder, which ends with the process. Yield False if another process has it."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def rewrite(path: pathlib.Path, change: Callable[[bytes], bytes]) -> bool:
    """Replace each line by what `change` returns. Return False if another process is rewriting, or the file grew.

    Raises OSError if the disk fails; the old file then stays.
    """
    with _only_writer(path.parent) as mine:
        if not mine:
            return False
        new = path.with_name(f".{path.name}{NEW}")  # left by a process that died: begin again
        size = path.stat().st_size
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with path.open("rb") as old, os.fdopen(descriptor, "wb") as made:
                for line in old:
                    made.write(change(line))
                made.flush()
                os.fsync(made.fileno())
            if path.stat().st_size != size:
                return False
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
        _sync(path.parent)
        return True


def _sync(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: pathlib.Path) -> None:
    """Delete unfinished files of processes that died."""
    with _only_writer(folder) as mine:
        if mine:
            for left in folder.glob(f".*{NEW}"):
                left.unlink(missing_ok=True)
