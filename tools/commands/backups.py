"""Read which backups a pgBackRest repository has (docs/backup.md)."""

import datetime as dt
import json
import os
import pathlib
import pwd
import shutil
import subprocess
from typing import Any

import attrs

from tools.commands import environment

USER = "postgres"  # runs pgBackRest and PostgreSQL if we are root: PostgreSQL refuses root
STANZA = "sesi"
ANSWER_S = 60.0  # a repository may be on another machine or in an object store
INSTALL = "pgbackrest is not installed: install the package pgbackrest, or run this on the database's machine"


class BackupError(Exception):
    """The repository can't be used. The message says why and what to do."""


@attrs.frozen(kw_only=True)
class Backup:
    """A complete backup. `size` is that of the database in bytes, `version` the major version of PostgreSQL."""

    label: str
    kind: str  # full, diff or incr
    began_at: dt.datetime
    ended_at: dt.datetime
    size: int
    version: str


def program() -> str:
    """Return the path of pgbackrest. Raises BackupError."""
    found = shutil.which("pgbackrest")
    if found is None:
        raise BackupError(INSTALL)
    return found


def account() -> pwd.struct_passwd | None:
    """Return the account that runs pgBackRest and PostgreSQL, None if it is our own. Raises BackupError."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(USER)
    except KeyError as error:
        raise BackupError(
            f"PostgreSQL can't run as root, and there is no user {USER}: run this as another user"
        ) from error


def as_postgres() -> dict[str, Any]:
    """Return the arguments of `subprocess` to run a program as that account, without the secrets of the service."""
    ours = environment.without_settings()
    kept = {name: value for name, value in ours.items() if not name.startswith("PG") or name.startswith("PGBACKREST")}
    arguments: dict[str, Any] = {"cwd": "/", "env": kept}
    if (other := account()) is not None:
        arguments |= {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}
    return arguments


def options(config: pathlib.Path | None, stanza: str) -> list[str]:
    """Return the options that name a stanza. Without `config`, pgBackRest reads its usual file and the environment."""
    return [f"--stanza={stanza}", *([] if config is None else [f"--config={config.absolute()}"])]


def backups(config: pathlib.Path | None = None, stanza: str = STANZA) -> list[Backup]:
    """Return the complete backups of a stanza without damaged pages, the oldest first.

    Raises BackupError if the repository can't be read or doesn't have the stanza.
    """
    quiet = ["--log-level-file=off", "--log-level-console=off", "--log-level-stderr=error"]
    command = [program(), *options(config, stanza), *quiet, "info", "--output=json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_S, **as_postgres())
    except subprocess.TimeoutExpired as error:
        raise BackupError(f"pgbackrest info did not answer within {ANSWER_S:.0f} s: check the repository") from error
    if done.returncode:
        raise BackupError(f"pgbackrest info failed: {(done.stderr or done.stdout).strip()}")
    return read_info(json.loads(done.stdout), stanza)


def read_info(answer: list[dict[str, Any]], stanza: str) -> list[Backup]:
    """Return the backups in the JSON of `pgbackrest info`. Raises BackupError for a stanza that can't be read."""
    found = next((one for one in answer if one["name"] == stanza), None)
    if found is None:
        raise BackupError(f"the repository has no stanza {stanza}: run `pgbackrest --stanza={stanza} stanza-create`")
    status = found["status"]
    if status["code"] in (1, 3):  # no folder of the stanza, or no data in it
        raise BackupError(
            f"the repository has no stanza {stanza} ({status['message']}): name it by --stanza, or run "
            f"`pgbackrest --stanza={stanza} stanza-create`"
        )
    if status["code"] > 3 and not found["backup"]:
        said = "; ".join(one["status"]["message"] for one in found.get("repo", [])) or status["message"]
        raise BackupError(f"the repository of the stanza {stanza} can't be read: {said}")
    versions = {(one["id"], one["repo-key"]): one["version"] for one in found["db"]}
    made = [
        Backup(
            label=one["label"],
            kind=one["type"],
            began_at=_time(one["timestamp"]["start"]),
            ended_at=_time(one["timestamp"]["stop"]),
            size=one["info"]["size"],
            version=versions[one["database"]["id"], one["database"]["repo-key"]],
        )
        for one in found["backup"]
        if not one.get("error")
    ]
    return sorted(made, key=lambda one: one.ended_at)


def last_backup(config: pathlib.Path | None = None, stanza: str = STANZA) -> dt.datetime | None:
    """Return when the newest backup ended, None if there is none. Raises BackupError as `backups` does."""
    made = backups(config, stanza)
    return made[-1].ended_at if made else None


def _time(seconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
