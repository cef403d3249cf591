"""Committed migrations have run on databases, so their files never change."""

from tests.migrations import record


def test_committed_migration_files_are_unchanged():
    assert record.changed() == [], "databases have run these files as they were: add a new migration instead"


def test_edited_migration_file_is_reported_and_not_recorded(monkeypatch, capsys):
    now = record.digests()
    monkeypatch.setattr(record, "digests", lambda: {**now, "sql/0002_money.sql": "0" * 64})
    assert record.changed() == ["sql/0002_money.sql"]
    before = record.COMMITTED.read_text()
    assert record.add_new() == 1
    assert "sql/0002_money.sql: databases have run it" in capsys.readouterr().err
    assert record.COMMITTED.read_text() == before


def test_name_of_each_migration_begins_with_its_id():
    for path in record.MIGRATIONS.glob("[0-9]*.py"):
        assert f'ID = "{path.stem.partition("_")[0]}"' in path.read_text(), path.name
