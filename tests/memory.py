"""Temporary files of a test run in memory, where the machine has room for them.

The services of a run create and delete many thousands of database files. On a disk with ext4 that took about a tenth of
the run's CPU time: each creation looks through the files that were deleted in the last minute.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
import time
from multiprocessing.util import Finalize

from tools.embedded import ports

MEMORY = pathlib.Path("/dev/shm")
PREFIX = "sesi-tests-"
# A run held up to 1.6 GiB on six workers. A container's memory file system often has 64 MiB.
ROOM_BYTES = 8 * 2**30
NEW_S = 60  # a folder is created before its lock is held


def has_room(place: pathlib.Path) -> bool:
    """Return whether a memory file system exists, may hold programs, and has room for the files of a run."""
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    return not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize >= ROOM_BYTES


def use_memory(place: pathlib.Path = MEMORY) -> Finalize | None:
    """Let this process and its children create their temporary files in a new folder of `place`.

    It is removed by the object returned, or at the end of this process. Returns None, and changes nothing, without room
    there or if TMPDIR is set. Removes what a killed run has left.
    """
    if "TMPDIR" in os.environ or not has_room(place):
        return None
    for left in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = hold(left)
            if time.time() - left.stat().st_mtime > NEW_S:
                shutil.rmtree(left, ignore_errors=True)
            os.close(lock)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    folder.chmod(0o711)  # PostgreSQL's account enters it
    # Ports still take turns with those of other runs and of `make up`.
    os.environ.setdefault(ports.FOLDER, tempfile.gettempdir())
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    # After multiprocessing has removed its own folder in it, at priority -100.
    return Finalize(None, _remove, (folder, hold(folder)), exitpriority=-200)


def _remove(folder: pathlib.Path, lock: int) -> None:
    del os.environ["TMPDIR"]
    tempfile.tempdir = None
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def hold(folder: pathlib.Path) -> int:
    """Lock a folder until the descriptor returned is closed. Raises OSError if another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
