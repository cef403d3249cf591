"""Who owns a data directory, what runs in it, and on which ports: owner.lock, servers.json and the pid files.

Invariant: a process that is not our child is signalled only while its command line names our folder.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import socket
import time
import urllib.parse
from typing import IO

import attrs

from tools.embedded import ports
from tools.embedded.processes import command_of
from tools.embedded.programs import HOST, EmbeddedError

# Below the ephemeral ports of Linux (32768) and macOS (49152), so that no outgoing connection can take the
# port of a server while it restarts.
PORTS = range(20_000, 32_000)
# A shutdown writes one checkpoint. After this time the server is killed, and the next start recovers.
STOP_TIMEOUT_S = 20.0
# Interval for checking on what takes tens of milliseconds.
POLL_S = 0.005
# On SIGTERM PostgreSQL would wait until every client has left; on SIGINT it disconnects them.
STOP_SIGNALS = {"postgres": signal.SIGINT, "valkey": signal.SIGTERM}


@attrs.frozen(kw_only=True)
class EmbeddedServers:
    """The running servers. `Embedded.watch` changes the process id of one that it restarts; the URLs stay the same."""

    database_url: str
    redis_url: str
    postgres_pid: int
    valkey_pid: int


@attrs.frozen(kw_only=True)
class Note:
    """The content of servers.json."""

    servers: EmbeddedServers
    postgres_dir: str


def running(data_dir: pathlib.Path) -> EmbeddedServers | None:
    """Return the servers that run in a data directory, or None unless both answer. The owner may be another process."""
    data_dir = data_dir.resolve()
    note = read_note(data_dir)
    if note is None:
        return None
    ours = _is_ours(note.servers.postgres_pid, pathlib.Path(note.postgres_dir) / "cluster")
    ours = ours and _is_ours(note.servers.valkey_pid, data_dir / "valkey")
    return note.servers if ours and all(map(_accepts, _noted_ports(note).values())) else None


def read_note(data_dir: pathlib.Path) -> Note | None:
    """Read servers.json. Return None if it is missing or unreadable; then only the recorded ports are lost."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads((data_dir / "servers.json").read_text())
        return Note(servers=EmbeddedServers(**content["servers"]), postgres_dir=content["postgres_dir"])
    return None


def _noted_ports(note: Note) -> dict[str, int]:
    urls = {"postgres": note.servers.database_url, "valkey": note.servers.redis_url}
    return {name: urllib.parse.urlsplit(url).port or 0 for name, url in urls.items()}


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def write_note(data_dir: pathlib.Path, note: Note) -> None:
    """Write servers.json, atomically."""
    written = data_dir / "servers.json.new"
    written.write_text(json.dumps(attrs.asdict(note), indent=2) + "\n")
    written.replace(data_dir / "servers.json")


def choose_ports(note: Note | None) -> dict[str, int]:
    """Choose a port for each server: the recorded one, or another if that is in use."""
    chosen = _noted_ports(note) if note else dict.fromkeys(STOP_SIGNALS, 0)
    for name in chosen:
        while list(chosen.values()).count(chosen[name]) > 1 or not _is_free(chosen[name]):
            chosen[name] = ports.in_turn(PORTS, name="sesi-server-ports", is_free=_is_free)
    return chosen


def _is_free(port: int) -> bool:
    if port not in PORTS:
        return False
    with contextlib.suppress(OSError), socket.socket() as candidate:
        # As the servers do, so that connections in TIME_WAIT don't matter.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        candidate.bind((HOST, port))
        return True
    return False


def lock(data_dir: pathlib.Path) -> IO[str]:
    """Become the only owner of a data directory, until the returned file is closed. Raises EmbeddedError."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = (data_dir / "owner.lock").open("a+")
    except OSError as error:
        raise EmbeddedError(f"can't write to {data_dir} ({error.strerror}): choose another folder.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read()
        lock.close()
        raise EmbeddedError(
            f"Sesi already runs in {data_dir}, as process {owner}: stop that one, or choose another folder."
        ) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def _is_ours(pid: int, folder: pathlib.Path) -> bool:
    return f" {folder} " in f" {command_of(pid)} "


def end_orphan(name: str, folder: pathlib.Path) -> None:
    """Stop a server that a killed owner left behind, and wait for its end.

    Raises EmbeddedError if it is another user's.
    """
    pid_file = folder / ("postmaster.pid" if name == "postgres" else "valkey.pid")
    try:
        pid = int(pid_file.read_text().split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return
    try:
        for number in (STOP_SIGNALS[name], signal.SIGKILL):
            if not _is_ours(pid, folder):
                return
            os.kill(pid, number)
            deadline = time.monotonic() + STOP_TIMEOUT_S
            while command_of(pid) is not None and time.monotonic() < deadline:
                time.sleep(POLL_S)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise EmbeddedError(f"Another user's {name} still runs in {folder}: stop it by `sudo kill {pid}`.") from error


def disown(pid_file: pathlib.Path) -> None:
    """Write our process id into the postmaster.pid of a postmaster that has ended, so that the next one starts.

    PostgreSQL refuses to start while the process named there exists, even a zombie or an unrelated process with the
    same id; only its own parent, which we are, does not count. Removing the file would also disable PostgreSQL's check
    that no session of the old postmaster still writes. Links are refused, because we may be root while the folder's
    owner is not.
    """

    def open_no_link(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW)

    with contextlib.suppress(FileNotFoundError), open(pid_file, "r+", opener=open_no_link) as file:
        rest = file.read().partition("\n")[2]
        if not rest:  # The machine failed before it was written, and PostgreSQL would refuse it.
            pid_file.unlink()
            return
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n{rest}")
