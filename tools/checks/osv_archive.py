"""The archive of known vulnerabilities that OSV publishes for PyPI, `all.zip`: one JSON file for each entry."""

import json
import pathlib
import zipfile
from collections import defaultdict
from typing import Any, Self

import attrs
from packaging.utils import canonicalize_name
from packaging.version import Version

ECOSYSTEM = "PyPI"


@attrs.frozen
class KnownFlaw:
    """A known vulnerability of a package: its id, and the versions in which it is fixed."""

    id: str
    fixed_in: list[str]


@attrs.frozen
class Archive:
    """The entries by the normalized name of the package that they affect, and the day of the newest one."""

    affected: dict[str, list[tuple[str, dict[str, Any]]]]
    newest: str

    @classmethod
    def read(cls, path: pathlib.Path) -> Self:
        """Read an archive. Raises OSError, BadZipFile or ValueError if it can't be read or has no entry."""
        affected, newest = defaultdict(list), ""
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                entry = json.loads(archive.read(name))
                newest = max(newest, entry["modified"][:10])
                if "withdrawn" in entry:
                    continue
                for one in entry.get("affected", []):
                    if one["package"]["ecosystem"] == ECOSYSTEM:
                        affected[canonicalize_name(one["package"]["name"])].append((entry["id"], one))
        if not affected:
            raise ValueError(f"{path} has no entry for {ECOSYSTEM}")
        return cls(dict(affected), newest)

    def of(self, name: str, version: str) -> list[KnownFlaw]:
        """Return the known vulnerabilities of a package in a version. Raises InvalidVersion."""
        return [
            KnownFlaw(entry, [since for events in _ranges(one) for kind, since in events if kind == "fixed"])
            for entry, one in self.affected.get(name, [])
            if is_affected(one, version)
        ]


def _ranges(affected: dict[str, Any]) -> list[list[tuple[str, str]]]:
    """Return the events of each range of versions: (introduced, fixed or last_affected; version)."""
    versions = [one for one in affected.get("ranges", []) if one["type"] == "ECOSYSTEM"]
    return [[pair for event in one["events"] for pair in event.items()] for one in versions]


def is_affected(affected: dict[str, Any], version: str) -> bool:
    """Return whether an entry's field `affected` names a version, in its list or by one of its ranges."""
    return version in affected.get("versions", []) or any(
        _is_within(events, Version(version)) for events in _ranges(affected)
    )


def _is_within(events: list[tuple[str, str]], version: Version) -> bool:
    """Return whether the newest event up to a version leaves it vulnerable."""
    found = False
    for kind, since in sorted(events, key=lambda event: Version(event[1])):
        if kind == "introduced" and version >= Version(since):
            found = True
        elif (kind == "fixed" and version >= Version(since)) or (kind == "last_affected" and version > Version(since)):
            found = False
    return found
