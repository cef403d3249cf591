"""The previous release, from which the service is upgraded in tests of rolling deploys."""

import contextlib
from collections.abc import Iterator

from tools.bench import revision
from tools.bench.running import BenchFailed
from tools.driving.service import SourceTree

VERSION = "0.2.0"
TAG = f"v{VERSION}"
# For clones without tags. The last commit of the release: later ones belong to the next version.
COMMIT = "bf1a44d95b464ebe4a62e05a950d7991c2ee0cd8"


def name() -> str:
    """Return the git revision of the previous release. Raises BenchFailed if the clone does not have it."""
    with contextlib.suppress(BenchFailed):
        return revision.find(TAG)
    return revision.find(COMMIT)


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
