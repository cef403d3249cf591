"""Sealed migrations have run on databases, so their files never change."""

import pathlib
import shutil

import pytest

from core.storage.migrations import MIGRATIONS, files
from tools.checks import new_migration


def test_each_migration_is_sealed_and_unchanged() -> None:
    texts = {path.name: path.read_text() for path in files().values()}
    assert [name for name, text in texts.items() if new_migration.is_changed(text)] == [], "add a new migration instead"
    assert [name for name, text in texts.items() if not new_migration.is_sealed(text)] == [], "run `make migration`"


def test_ids_of_migrations_follow_each_other() -> None:
    assert [path.name[:5] for path in sorted(MIGRATIONS.glob("*.sql"))] == [
        f"{n:04}_" for n in range(1, len(files()) + 1)
    ]


def test_new_migration_is_sealed_and_an_edited_one_is_reported(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = pathlib.Path(shutil.copy(next(iter(files().values())), tmp_path))
    added = tmp_path / "0099_mitra_left.sql"
    added.write_text("SELECT 1;\n")
    assert new_migration.seal(tmp_path) == 0
    assert new_migration.is_sealed(added.read_text())
    assert not new_migration.is_changed(added.read_text())
    first.write_text(first.read_text() + "SELECT 1;\n")
    before = [path.read_text() for path in (first, added)]
    assert new_migration.seal(tmp_path) == 1
    assert f"{first.name}: databases have run it" in capsys.readouterr().err
    assert [path.read_text() for path in (first, added)] == before
