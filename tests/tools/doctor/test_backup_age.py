"""`sesi doctor --stanza` checks the age of the last backup."""

import datetime as dt
import json
import pathlib
import tempfile
from collections.abc import Iterator

import pytest

from tests.tools.doctor.examined import ready
from tools.commands import backups
from tools.commands.backups import BackupError
from tools.doctor import backup_age
from tools.doctor.findings import Result

NOW = dt.datetime.now(dt.UTC)
PRODUCTION = {
    "ENVIRONMENT": "production",
    "GATEWAY_ENABLED": "false",
    "OTP_SENDER": "log",
    "PUSH_SENDER": "log",
    "JWT_SECRETS": f"k:{'0123456789abcdef' * 4}",
    "GATEWAY_CALLBACK_TOKEN": "a-callback-token-for-the-tests",
}


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """Put a program in the place of pgbackrest that prints a file; yield the file."""
    try:
        backups.account()
    except BackupError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="sesi-backups-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)  # under root the program runs as another user
        program, answer = folder / "pgbackrest", folder / "info.json"
        program.write_text(f"#!/bin/sh\nexec cat {answer}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        yield answer


def stanza(*ended_at: dt.datetime) -> str:
    """Return what `pgbackrest info` prints about a stanza with backups that ended then."""
    made = [
        {
            "label": f"{at:%Y%m%d-%H%M%S}F", "type": "full", "error": False,
            "timestamp": {"start": int(at.timestamp()) - 60, "stop": int(at.timestamp())},
            "info": {"size": 1}, "database": {"id": 1, "repo-key": 1},
        }
        for at in ended_at
    ]  # fmt: skip
    status = {"code": 0 if made else 2, "message": "ok" if made else "no valid backups"}
    db = [{"id": 1, "repo-key": 1, "version": "17"}]
    return json.dumps([{"name": "sesi", "status": status, "backup": made, "db": db}])


@pytest.mark.parametrize(("hours", "result"), [(25, Result.OK), (27, Result.FAILURE)])
def test_backup_older_than_a_day_is_a_failure(repository: pathlib.Path, hours: int, result: Result) -> None:
    repository.write_text(stanza(NOW - dt.timedelta(days=9), NOW - dt.timedelta(hours=hours)))
    (found,) = backup_age.check(ready({}), "sesi", None)
    assert (found.result, f"{hours} hours ago" in found.text) == (result, True)


def test_stanza_without_backup_or_unknown_is_a_failure(repository: pathlib.Path) -> None:
    repository.write_text(stanza())
    (none,) = backup_age.check(ready({}), "sesi", None)
    (unknown,) = backup_age.check(ready({}), "other", None)
    assert (none.result, "there is none" in none.text) == (Result.FAILURE, True)
    assert (unknown.result, "stanza-create" in unknown.text) == (Result.FAILURE, True)


def test_production_without_a_stanza_is_a_warning() -> None:
    (found,) = backup_age.check(ready(PRODUCTION), None, None)
    assert (found.result, "--stanza NAME" in found.text) == (Result.WARNING, True)
    assert backup_age.check(ready({}), None, None) == []
