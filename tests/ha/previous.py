"""The previous release, from which the service is upgraded in tests of rolling deploys."""

import contextlib
import subprocess
from collections.abc import Iterator

from core.storage.migrations import files
from tests.migrations.series import FIRST_SERIES
from tools.bench import revision
from tools.bench.running import BenchFailed
from tools.driving.service import SourceTree

VERSION = "1.0.0"
TAG = f"v{VERSION}"


def name() -> str:
    """Return the git revision of the previous release. Raises BenchFailed if the clone does not have it.

    Before that release, it is the commit that completed the first series of migrations, which never change after it.
    """
    with contextlib.suppress(BenchFailed):
        return revision.find(TAG)
    series = [str(path) for path in files().values()][:FIRST_SERIES]
    log = ["git", "log", "-1", "--format=%H", "--", *series]
    return revision.find(
        subprocess.run(log, cwd=revision.ROOT, check=True, capture_output=True, text=True).stdout.strip()
    )


def missing() -> str:
    """Return how to get the previous release; an empty text if the clone has it."""
    try:
        name()
    except BenchFailed:
        return f"{TAG} is missing in this clone: run `git fetch --unshallow --tags`"
    return ""


@contextlib.contextmanager
def checked_out() -> Iterator[SourceTree]:
    """Check out the previous release into a temporary worktree, with its environment."""
    made = revision.check_out(name(), lambda _: None)
    try:
        yield made.code
    finally:
        made.close()
