"""A temporary PostgreSQL server with a restored backup, which no other user of the machine can reach.

It has its own folder and listens on a socket in that folder only. Nothing of the production server is written: the
restore gets its own folder for data, tablespaces, locks and logs; the server archives nothing and follows no primary.
"""

import asyncio
import contextlib
import datetime as dt
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

import asyncpg
import attrs

from core.base.progress import Report
from tools.commands import backups
from tools.commands.backups import Backup, BackupError

PORT = 5432  # names the socket's file; no port is opened
SPARE = 1.2  # times the size of the database: its log comes on top
POLL_S = 0.1
LOOK_S = 1.0  # between two looks at the size of the restored files
# They win over all files that the backup has. Settings of the production server must not apply here: they could
# archive, connect to other servers or write logs somewhere.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": str(PORT),
    "archive_mode": "off",
    "archive_command": "",
    "primary_conninfo": "",
    "synchronous_standby_names": "",
    "shared_preload_libraries": "",
    "max_logical_replication_workers": "0",
    "hot_standby": "off",  # else it would need as many connections as the production server
    "ssl": "off",
    "logging_collector": "off",
    "log_destination": "stderr",
    "external_pid_file": "",
    "autovacuum": "off",
    "jit": "off",  # it needs memory that can be written and executed, which a hardened unit denies
    "fsync": "off",  # the data is thrown away
}
KEPT = ("restore_command", "recovery_target")  # of the settings that the restore has written


@attrs.frozen(kw_only=True)
class Source:
    """What to restore: the newest data of a stanza, or that of a moment, with the programs of PostgreSQL in a
    folder."""

    config: pathlib.Path | None
    stanza: str
    to: dt.datetime | None
    programs: pathlib.Path


def programs(given: pathlib.Path | None, version: str) -> pathlib.Path:
    """Return the folder of PostgreSQL's programs of a major version. Raises BackupError."""
    usual = [pathlib.Path(f"/usr/lib/postgresql/{version}/bin"), pathlib.Path(f"/usr/pgsql-{version}/bin")]
    found = shutil.which("postgres")
    usual += [pathlib.Path(found).resolve().parent] if found else []
    for folder in [given] if given is not None else usual:
        if (folder / "postgres").is_file() and _version(folder) == version:
            return folder
    where = given or " or ".join(map(str, usual))
    raise BackupError(
        f"no PostgreSQL {version} in {where}: install that version, which made the backup, or name its folder by "
        "--postgres"
    )


def _size(folder: pathlib.Path) -> int:
    """Return the bytes of the files in a folder; files that vanish count as empty."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def _version(folder: pathlib.Path) -> str:
    said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
    number = said.split("(PostgreSQL)")[-1].split() or [""]
    return number[0].partition(".")[0]


class Restored:
    """The folder of a restored database, and its server."""

    def __init__(self, source: Source, folder: pathlib.Path, *, database: str, user: str) -> None:
        self.source = source
        self.folder = folder
        self._database = database
        self._role = user
        self._server: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        """The URL of the database."""
        parameters = urllib.parse.urlencode({"host": str(self.folder), "port": PORT, "sslmode": "disable"}, safe="/")
        quoted = (urllib.parse.quote(name, safe="") for name in (self._role, self._database))
        return "postgresql://{}@/{}?{}".format(*quoted, parameters)

    def restore(self, backup: Backup, report: Report) -> None:
        """Restore the files of a backup. Raises BackupError."""
        source, folder = self.source, self.folder
        target = [] if source.to is None else ["--type=time", f"--target={source.to.isoformat(sep=' ')}"]
        command = [
            backups.program(), *backups.options(source.config, source.stanza),
            f"--pg1-path={folder / 'data'}", "--reset-pg1-host", f"--tablespace-map-all={folder / 'tablespaces'}",
            f"--set={backup.label}", "--no-link-all", "--no-delta",
            f"--lock-path={folder}", f"--log-path={folder}", f"--spool-path={folder}", "--log-level-file=off",
            "--log-level-console=off", "--log-level-stderr=error", *(target or ["--type=default"]),
            *(["--target-action=promote"] if target else []), "restore",
        ]  # fmt: skip
        code, said = self._run(command, backup, report)
        if code:
            raise BackupError(f"pgbackrest restore failed: {said}")
        self._drop_settings()

    def _run(self, command: list[str], backup: Backup, report: Report) -> tuple[int, str]:
        """Run a program that fills the folder; return (exit code, what it said)."""
        out = subprocess.PIPE
        with subprocess.Popen(command, stdout=out, stderr=out, text=True, **backups.as_postgres()) as process:
            try:
                while True:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        said, wrong = process.communicate(timeout=LOOK_S)
                        return process.returncode, (wrong or said).strip()
                    size = _size(self.folder)
                    report(min(1.0, size / backup.size), f"{size >> 20:,} of {backup.size >> 20:,} MiB")
            except BaseException:
                process.kill()
                raise

    def _drop_settings(self) -> None:
        """Keep only the settings of the recovery."""
        data = self.folder / "data"
        ours = data / "postgresql.auto.conf"
        kept = [line for line in ours.read_text().splitlines() if line.startswith(KEPT)]
        _write(ours, "\n".join([*kept, ""]))
        _write(self.folder / "postgresql.conf", "")
        _write(self.folder / "pg_hba.conf", "local all all trust\n")  # the folder is closed to other users
        _write(self.folder / "pg_ident.conf", "")

    def start(self) -> None:
        """Start the server, which begins to replay the archived log."""
        folder = self.folder
        files = {"config_file": "postgresql.conf", "hba_file": "pg_hba.conf", "ident_file": "pg_ident.conf"}
        settings = {
            **SETTINGS,
            "unix_socket_directories": str(folder),
            **{name: str(folder / file) for name, file in files.items()},
        }
        command = [self.source.programs / "postgres", "-D", folder / "data"]
        command += [f"-c{name}={value}" for name, value in settings.items()]
        with (folder / "postgres.log").open("ab") as log:
            self._server = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **backups.as_postgres(),
            )  # fmt: skip

    async def connect(self) -> asyncpg.Connection:
        """Wait until the log is replayed, and connect. Raises BackupError if the server ends or refuses us."""
        while True:
            try:
                return await asyncpg.connect(self.url, timeout=5)
            except (asyncpg.InvalidCatalogNameError, asyncpg.InvalidAuthorizationSpecificationError) as error:
                raise BackupError(f"the restored server says: {error}. Name both by --database and --user") from error
            except (OSError, TimeoutError, asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError):
                assert self._server is not None
                if self._server.poll() is not None:
                    raise BackupError(self._why_ended()) from None
            except asyncpg.PostgresError as error:
                raise BackupError(f"the restored server says: {error}") from error
            await asyncio.sleep(POLL_S)

    def _why_ended(self) -> str:
        log = (self.folder / "postgres.log").read_text(errors="replace")
        if "recovery ended before configured recovery target was reached" in log:
            return (
                "the archive ends before --to: choose an earlier time, or archive the newest log first "
                "(SELECT pg_switch_wal())"
            )
        lines = [line for line in log.splitlines() if "FATAL" in line or "PANIC" in line]
        return "the restored server has ended: " + ("\n".join(lines[-3:]) or log[-1500:])

    def stop(self) -> None:
        """Stop the server."""
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
            try:
                self._server.wait(20)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()


def _write(path: pathlib.Path, text: str) -> None:
    """Write a file, through no link: we may be root while the folder's owner is not."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with open(path, "w", opener=lambda name, _: os.open(name, flags, 0o644)) as file:
        file.write(text)


@contextlib.contextmanager
def restored(source: Source, backup: Backup, *, parent: pathlib.Path, database: str, user: str) -> Iterator[Restored]:
    """Yield a database to restore into a new folder below `parent`; stop its server and delete the folder at the end.

    Raises BackupError if the folder can't be made or has not enough space.
    """
    account = backups.account()
    try:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="sesi-restore-", dir=parent))
    except OSError as error:
        raise BackupError(f"can't write to {parent} ({error.strerror}): name another folder by --folder") from error
    try:
        free = shutil.disk_usage(folder).free
        if free < backup.size * SPARE:
            raise BackupError(
                f"{parent} has {free >> 20:,} MiB free, and the database needs {round(backup.size * SPARE) >> 20:,}: "
                "name another folder by --folder"
            )
        (folder / "tablespaces").mkdir()
        if account is not None:
            for path in (folder, folder / "tablespaces"):
                os.chown(path, account.pw_uid, account.pw_gid)
        made = Restored(source, folder, database=database, user=user)
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
