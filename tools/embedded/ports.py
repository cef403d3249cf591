"""Ports for the servers and processes of tests and commands, which take turns through a range.

A port that was free a moment ago may be chosen by another process before it is bound, or while its server restarts. So
the processes of a user share a file with the last port of each range, and no port comes again before all others.
"""

import fcntl
import os
import pathlib
import tempfile
from collections.abc import Callable

FOLDER = "PORTS_FOLDER"  # in the environment: the folder of these files, if it is not the temporary one


def in_turn(ports: range, *, name: str, is_free: Callable[[int], bool]) -> int:
    """Return the next free port of a range. `name` is that of the file with the last one. Raises OSError.

    Links are refused: the temporary folder belongs to all users.
    """

    def open_no_link(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW, 0o600)

    folder = pathlib.Path(os.environ.get(FOLDER) or tempfile.gettempdir())
    with open(folder / f"{name}-{os.getuid()}", "a+", opener=open_no_link) as book:
        fcntl.flock(book, fcntl.LOCK_EX)
        book.seek(0)
        last = book.read().strip()
        port = int(last) if last.isdecimal() else ports.start
        for _ in ports:
            port = port + 1 if port + 1 in ports else ports.start
            if is_free(port):
                book.truncate(0)
                book.write(str(port))
                return port
    raise OSError("no port is free")
