"""What `pgbackrest info` reports: backups, and repositories that can't be used."""

import datetime as dt
from typing import Any

import pytest

from tools.commands.backups import Backup, BackupError, read_info

OK: dict[str, Any] = {"code": 0, "message": "ok"}


def backup(label: str, stop: int, **more: Any) -> dict[str, Any]:
    """Return a backup as pgBackRest 2.45 reports it."""
    return {
        "database": {"id": 1, "repo-key": 1},
        "error": False,
        "info": {"size": 22_992_374},
        "label": label,
        "timestamp": {"start": stop - 2, "stop": stop},
        "type": "full",
        **more,
    }


def info(*backups: dict[str, Any], status: dict[str, Any] = OK) -> list[dict[str, Any]]:
    """Return the whole answer."""
    repository = {"key": 1, "status": status}
    database = {"id": 1, "repo-key": 1, "version": "15"}
    return [{"name": "sesi", "backup": list(backups), "db": [database], "repo": [repository], "status": status}]


def test_backups_come_oldest_first_with_their_version_and_size() -> None:
    newer, older = backup("20261125-224407F_20261125-230000I", 1_795_647_600), backup("20261125-224407F", 1_795_646_649)
    found = read_info(info(newer, older), "sesi")
    assert [one.label for one in found] == [older["label"], newer["label"]]
    assert found[0] == Backup(
        label="20261125-224407F",
        kind="full",
        began_at=dt.datetime(2026, 11, 25, 22, 44, 7, tzinfo=dt.UTC),
        ended_at=dt.datetime(2026, 11, 25, 22, 44, 9, tzinfo=dt.UTC),
        size=22_992_374,
        version="15",
    )


def test_backup_with_damaged_pages_does_not_count() -> None:
    assert read_info(info(backup("a", 10), backup("b", 20, error=True)), "sesi")[-1].label == "a"


def test_stanza_without_backups_has_none() -> None:
    assert read_info(info(status={"code": 2, "message": "no valid backups"}), "sesi") == []


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([], "no stanza sesi"),
        (info(status={"code": 1, "message": "missing stanza path"}), "no stanza sesi"),
        (info(status={"code": 3, "message": "missing stanza data"}), "no stanza sesi"),
        (
            info(status={"code": 99, "message": "[PathOpenError] Permission denied"}),
            "can't be read: .*Permission denied",
        ),
    ],
)
def test_repository_that_can_not_be_read_is_an_error(answer: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(BackupError, match=says):
        read_info(answer, "sesi")
