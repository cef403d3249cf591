"""`make deploy-check`: check every file of `deploy`. Exit codes: 1 something is wrong, 2 the checkers are missing."""

import sys
import time

from tests.deploy.checks import CHECKS
from tests.deploy.programs import DEPLOY, checkers_missing


def main() -> int:
    """Run all checks; return the exit code."""
    if missing := checkers_missing():
        print(missing, file=sys.stderr)
        return 2
    bad = 0
    for check in CHECKS:
        began = time.monotonic()
        problem = check(DEPLOY)
        bad += bool(problem)
        print(f"{'bad' if problem else 'ok':3}  {check.__name__}  ({time.monotonic() - began:.1f} s)", flush=True)
        if problem:
            print(problem, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
