"""Each migration's files are in the record that keeps them from changing."""

from tests.migrations import record


def test_each_migration_file_is_recorded():
    missing = sorted(record.digests().keys() - record.committed().keys())
    assert missing == [], "run `make migrations` and commit tests/migrations"
