"""The check of the last backup (docs/doctor.md#backups)."""

import datetime as dt
import pathlib

from core.settings.settings import Settings
from tools.commands.backups import BackupError, last_backup
from tools.doctor.findings import Finding, failure, ok, warning

CHECK = "last backup"
OLDEST = dt.timedelta(hours=26)  # a backup each day, with two hours for making it


def check(settings: Settings, stanza: str | None, config: pathlib.Path | None) -> list[Finding]:
    """Check the age of the newest backup in the repository of a pgBackRest stanza."""
    if stanza is None:
        if not settings.production:
            return []
        return [warning(CHECK, "not checked: run `sesi doctor --stanza NAME` where pgbackrest reaches its repository")]
    try:
        ended_at = last_backup(config, stanza)
    except BackupError as error:
        return [failure(CHECK, str(error))]
    return [judged(ended_at, dt.datetime.now(dt.UTC), stanza)]


def judged(ended_at: dt.datetime | None, now: dt.datetime, stanza: str) -> Finding:
    """Return the finding about a backup that ended at `ended_at`; None: there is none."""
    fix = f"run `pgbackrest --stanza={stanza} backup`, and see why its timer did not"
    if ended_at is None:
        return failure(CHECK, f"there is none: {fix}")
    age = now - ended_at
    text = f"ended {age / dt.timedelta(hours=1):.0f} hours ago"
    return ok(CHECK, text) if age <= OLDEST else failure(CHECK, f"{text}: {fix}")
