"""A PostgreSQL server of Debian that archives into an encrypted repository, with the shipped configuration."""

import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any

from tests import debian
from tools.commands import backups
from tools.driving.throwaway import free_port

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy" / "pgbackrest"
READY_S = 60.0


def binaries() -> pathlib.Path | None:
    """Return the folder of the newest PostgreSQL of Debian's packages; None without one."""
    found = pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return max((one.parent for one in found), key=lambda folder: int(folder.parent.name), default=None)


def missing() -> str:
    """Return what is missing and how to install it; an empty text if nothing is."""
    if binaries() is None:
        return "postgresql missing: run `make engines`, which installs Debian's packages"
    return debian.missing({"pgbackrest": "pgbackrest"})


class Archived:
    """The server and its repository, below one folder."""

    def __init__(self) -> None:
        found = binaries()
        assert found is not None
        self.programs = found
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sesi-backup-"))
        self._account = backups.account()
        self.folder.chmod(0o755)
        for name in ("repository", "spool", "log", "lock"):
            (self.folder / name).mkdir()
        if self._account is not None:
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, self._account.pw_uid, self._account.pw_gid)
        self.port = free_port()
        self.config = self.folder / "pgbackrest.conf"
        self._server: subprocess.Popen[str] | None = None
        try:
            self._configure()
            self._start()
        except BaseException:
            self.close()
            raise

    def _configure(self) -> None:
        """Write the shipped files with other paths, and the passphrase."""
        text = (DEPLOY / "pgbackrest.conf").read_text()
        for shipped, ours in {
            "/var/lib/pgbackrest": "repository", "/var/spool/pgbackrest": "spool", "/var/log/pgbackrest": "log",
            "/var/lib/postgresql/15/main": "data",
        }.items():  # fmt: skip
            assert shipped in text
            text = text.replace(shipped, str(self.folder / ours))
        server = f"pg1-socket-path={self.folder}\npg1-port={self.port}\npg1-user=postgres\n"
        secret = f"\n[global]\nrepo1-cipher-pass={secrets.token_hex(32)}\nlock-path={self.folder / 'lock'}\n"
        self.config.write_text(text + server + secret)
        settings = (DEPLOY / "postgresql.conf").read_text()
        settings = settings.replace(
            "'pgbackrest ", f"'pwd >> {self.folder}/archiving; {debian.path_of('pgbackrest')} --config={self.config} "
        )
        self.run(
            self.programs / "initdb", "-D", self.folder / "data", "-A", "trust", "-U", "postgres", "-E", "UTF8",
            "--locale=C.UTF-8", "--no-sync",
        )  # fmt: skip
        # Not postgresql.conf: this file wins over it, as with ALTER SYSTEM, and a restore brings it along.
        with (self.folder / "data" / "postgresql.auto.conf").open("a") as file:
            file.write(
                f"{settings}\nlisten_addresses = '127.0.0.1'\nport = {self.port}\n"
                f"unix_socket_directories = '{self.folder}'\nfsync = off\ntimezone = 'UTC'\n"
            )

    def _start(self) -> None:
        self._run_server()
        self.psql("postgres", "CREATE DATABASE sesi")
        self.pgbackrest("stanza-create")

    def _run_server(self) -> None:
        """Start the server and wait until it takes writes."""
        with (self.folder / "server.log").open("ab") as log:
            self._server = subprocess.Popen(
                [str(self.programs / "postgres"), "-D", str(self.folder / "data")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **self._options(),
            )  # fmt: skip
        deadline = time.monotonic() + READY_S
        while self.psql("postgres", "SELECT pg_is_in_recovery()", check=False) != "f":
            assert time.monotonic() < deadline, (self.folder / "server.log").read_text()
            assert self._server.poll() is None, (self.folder / "server.log").read_text()
            time.sleep(0.1)

    def _stop(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            self._server.wait(20)
            self._server = None

    def restore(self, moment: str, *words: str) -> None:
        """Replace the server by one with the data of a moment, as docs/backup.md says."""
        self._stop()
        data = self.folder / "data"
        data.rename(self.folder / f"data-{secrets.token_hex(4)}")
        data.mkdir(mode=0o700)
        if self._account is not None:
            os.chown(data, self._account.pw_uid, self._account.pw_gid)
        self.pgbackrest("--type=time", f"--target={moment}", "--target-action=promote", *words, "restore")
        self._run_server()

    @property
    def url(self) -> str:
        """The URL of the service's database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/sesi?sslmode=disable"

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"cwd": "/", "env": {"PATH": debian.PATH, "LC_ALL": "C.UTF-8"}}
        if self._account is not None:
            options |= {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        return options

    def run(self, *command: Any, check: bool = True) -> str:
        """Run a program as the server's user; return its output."""
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, check=False, **self._options()
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def pgbackrest(self, *words: str) -> str:
        """Run pgBackRest on the stanza."""
        return self.run(debian.path_of("pgbackrest"), f"--config={self.config}", "--stanza=sesi", *words)

    def psql(self, database: str, sql: str, *, check: bool = True) -> str:
        """Run a statement; return what it prints."""
        command = [self.programs / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-p", self.port]
        return self.run(*command, "-U", "postgres", "-d", database, "-c", sql, check=check)

    def archive(self) -> None:
        """Wait until everything that is committed now is in the repository."""
        segment = self.psql("sesi", "SELECT pg_walfile_name(pg_switch_wal())")
        deadline = time.monotonic() + READY_S
        while self.psql("sesi", "SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver") < segment:
            assert time.monotonic() < deadline, (self.folder / "server.log").read_text()
            time.sleep(0.1)

    def archiving(self) -> set[str]:
        """Return the data folders of all servers that have run the command that archives."""
        return set((self.folder / "archiving").read_text().split())

    def close(self) -> None:
        """Stop the server and delete everything."""
        self._stop()
        shutil.rmtree(self.folder, ignore_errors=True)
