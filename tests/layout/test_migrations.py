"""Committed migrations have run on databases, so their files never change."""

from tests.migrations import record


def test_committed_migration_files_are_unchanged():
    assert record.changed() == [], "databases have run these files as they were: add a new migration instead"


def test_edited_migration_file_is_reported_and_not_recorded(monkeypatch, capsys):
    now = record.digests()
    monkeypatch.setattr(record, "digests", lambda: {**now, "sql/guards.sql": "0" * 64})
    assert record.changed() == ["sql/guards.sql"]
    before = record.COMMITTED.read_text()
    assert record.add_new() == 1
    assert "sql/guards.sql: databases have run it" in capsys.readouterr().err
    assert record.COMMITTED.read_text() == before
