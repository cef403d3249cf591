"""The locks are audited without a network, by an archive as OSV publishes it; without its data nothing passes."""

import json
import pathlib
import zipfile
from typing import Any

import pytest

from tools.checks.audit_locks import LOCKS, main
from tools.checks.osv_archive import is_affected


def entry(package: str, *events: dict[str, str], ecosystem: str = "PyPI", **more: Any) -> dict[str, Any]:
    """Return an entry of OSV about a package."""
    ranges = [{"type": "GIT", "events": [{"introduced": "0"}]}, {"type": "ECOSYSTEM", "events": [*events]}]
    affected = [{"package": {"name": package, "ecosystem": ecosystem}, "ranges": ranges}]
    return {"id": "PYSEC-2026-1", "modified": "2026-11-24T10:00:00Z", "affected": affected, **more}


def archive(path: pathlib.Path, *entries: dict[str, Any]) -> list[str]:
    """Write an archive with these entries; return the options that name it."""
    with zipfile.ZipFile(path / "all.zip", "w") as made:
        for number, one in enumerate(entries):
            made.writestr(f"{number}.json", json.dumps(one))
    return ["--osv-archive", str(path / "all.zip")]


def test_archive_names_each_lock_with_a_vulnerable_package(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(archive(tmp_path, entry("AsyncPG", {"introduced": "0.20"}, {"fixed": "999.0"}))) == 1
    said = capsys.readouterr()
    assert "runtime.lock: asyncpg 0." in said.err
    assert "PYSEC-2026-1, fixed in 999.0" in said.err
    assert "1 packages have known vulnerabilities, up to 2026-11-24" in said.out


def test_locks_pass_if_the_archive_has_nothing_about_their_versions(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harmless = (
        entry("asyncpg", {"introduced": "0"}, {"fixed": "0.20"}),
        entry("asyncpg", {"introduced": "0"}, withdrawn="2026-11-24T10:00:00Z"),
        entry("asyncpg", {"introduced": "0"}, ecosystem="npm"),
    )
    assert main(archive(tmp_path, *harmless)) == 0
    passed = capsys.readouterr().out
    assert [lock for lock in LOCKS if f"{lock.name}: no known vulnerability in " not in passed] == []


@pytest.mark.parametrize(
    "entries",
    [(), (entry("asyncpg", ecosystem="npm"),), ({"id": "PYSEC-2026-1"},), (entry("asyncpg", {"introduced": "r7"}),)],
)
def test_archive_without_usable_entries_is_not_a_pass(
    entries: tuple[dict[str, Any], ...], tmp_path: pathlib.Path
) -> None:
    assert main(archive(tmp_path, *entries)) == 2


def test_missing_archive_is_not_a_pass(tmp_path: pathlib.Path) -> None:
    assert main(["--osv-archive", str(tmp_path / "all.zip")]) == 2


@pytest.mark.parametrize(
    ("version", "affected"),
    [("1.9", False), ("1.10", True), ("1.10.1", False), ("2.0", True), ("2.3", True), ("2.4", False), ("3.0rc1", True)],
)
def test_version_is_affected_within_a_range_or_if_it_is_listed(version: str, affected: bool) -> None:
    events = [{"introduced": "2.0"}, {"last_affected": "2.3"}, {"introduced": "1.10"}, {"fixed": "1.10.1"}]
    found = entry("some", *events)["affected"][0] | {"versions": ["3.0rc1"]}
    assert is_affected(found, version) is affected
