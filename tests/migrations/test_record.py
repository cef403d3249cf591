"""Each migration file is in the record that protects it from changes."""

from tests.migrations import record


def test_each_migration_file_is_recorded():
    missing = sorted(record.digests().keys() - record.committed().keys())
    assert missing == [], "run `make migrations` and commit tests/migrations"
