"""Run a tier of the tests, repeat what failed once, and judge: `python -m tests.run quick|all`.

As regrtest of CPython does, tests that failed run once more after the others, alone on the machine. Those that pass then
are *unstable*: they are listed at the end and in build/unstable-TIER.txt with their first traceback, and do not fail the
run unless they are more than MOST_UNSTABLE. Property tests have the same examples in each run, so the repetition meets
the failing one. Verdicts are final (tests/verdicts.py). A test that is not slow (tests/tiers.py) but took more than
LIMIT_S is timed again alone; if it still takes that long, the run fails.

Exit code: 0 passed, 1 failed, else pytest's own (2 interrupted, 3 internal error, 4 usage, 5 no tests).
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import attrs

from tests.tiers import LIMIT_S, QUICK, ROOT, is_slow

TOP = ROOT.parent
MOST_UNSTABLE = 5  # more of them say that the machine or the product is in trouble
MOST_REPEATED = 20  # more failures than this are no accident, and take long to repeat
WORKERS = {"quick": 4, "all": 5}  # for two cores; more wait in the slow folders
BUSY = 2  # how much longer a test takes among the others than alone
PYTEST = (sys.executable, "-m", "pytest")


@attrs.frozen(kw_only=True)
class Found:
    """What a run of pytest recorded. `failed`: test -> its first traceback; `seconds`: of each test with a limit."""

    code: int
    failed: dict[str, str]
    verdicts: frozenset[str]
    seconds: dict[str, float]


@attrs.frozen(kw_only=True)
class Judgement:
    """How a run ended."""

    unstable: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    too_slow: tuple[str, ...] = ()

    @property
    def is_passed(self) -> bool:
        """Return whether the run passed."""
        return not self.failed and not self.too_slow and len(self.unstable) <= MOST_UNSTABLE


def run_pytest(*args: str) -> Found:
    """Run pytest and read what it recorded."""
    with tempfile.TemporaryDirectory(prefix="sesi-run-") as folder:
        path = pathlib.Path(folder, "outcomes")
        path.touch()
        code = subprocess.run([*PYTEST, f"--outcomes={path}", *args], cwd=TOP, check=False).returncode
        return read(code, path)


def read(code: int, record: pathlib.Path) -> Found:
    """Return what a run recorded (`Outcomes` of tests/verdicts.py)."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    failed: dict[str, str] = {}
    seconds: dict[str, float] = collections.defaultdict(float)
    for line in lines:
        if line["failed"]:
            failed.setdefault(line["test"], line["trace"])
        if line["when"] == "call" and not line["slow"] and not is_slow(TOP / line["test"].partition("::")[0]):
            seconds[line["test"]] = max(seconds[line["test"]], line["seconds"])
    verdicts = frozenset(line["test"] for line in lines if line["verdict"])
    return Found(code=code, failed=failed, verdicts=verdicts, seconds=dict(seconds))


def again(found: Found) -> tuple[str, ...]:
    """Return the tests to repeat alone."""
    if found.verdicts or len(found.failed) > MOST_REPEATED:
        return ()
    slow = {test for test, seconds in found.seconds.items() if seconds > BUSY * LIMIT_S}
    return tuple(sorted(found.failed.keys() | slow))


def judge(first: Found, second: Found | None) -> Judgement:
    """Return how a run ended. `second` is the repetition of `again(first)`; None: nothing was repeated."""
    if second is None:
        return Judgement(failed=tuple(first.failed))
    slow = {test for test in first.seconds if second.seconds.get(test, 0) > LIMIT_S}
    return Judgement(
        unstable=tuple(test for test in first.failed if test not in second.failed),
        failed=tuple(dict.fromkeys([*(test for test in first.failed if test in second.failed), *second.failed])),
        too_slow=tuple(sorted(slow)),
    )


def reason(trace: str) -> str:
    """Return the lines of a traceback at which it failed, each with the first line of its error."""
    lines = [line for line in trace.splitlines() if line.startswith((">", "E "))]
    return "\n    ".join(line for n, line in enumerate(lines) if line[0] == ">" or lines[n - 1][0] == ">")


def report(tier: str, first: Found, judged: Judgement) -> None:
    """Print how the run ended, and write the file of the unstable tests."""
    path = TOP / "build" / f"unstable-{tier}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"=== {test}\n{first.failed[test]}\n\n" for test in judged.unstable))
    said = [f"{test}\n    {reason(first.failed[test])}" for test in judged.unstable]
    for title, tests in (
        (f"failed{' with a verdict' if first.verdicts else ''}", judged.failed),
        (f"took more than {LIMIT_S:g} s, alone: make it quicker, or move it to a slow folder", judged.too_slow),
        (f"unstable (failed, then passed alone; {path.relative_to(TOP)} has the tracebacks)", said),
    ):
        if tests:
            print(f"\n{len(tests)} {title}:", *tests, sep="\n  ")
    if len(judged.unstable) > MOST_UNSTABLE:
        print(f"\nMore than {MOST_UNSTABLE} unstable tests fail the run.")


def main(tier: str, workers: int, more: list[str]) -> int:
    """Run the tests of a tier; return the exit code."""
    # Without bytecode files each worker compiles all tests, and each process under test the service.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if tier == "quick":
        os.environ[QUICK] = "1"
    spread = ("-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder")
    first = run_pytest("--tier", tier, *spread, *more)
    if first.code not in (0, 1):
        return first.code
    second = None
    if tests := again(first):
        print(f"\nOnce more, alone (failed, or over {BUSY * LIMIT_S:g} s):", *tests, sep="\n  ", flush=True)
        with tempfile.NamedTemporaryFile("w", suffix=".args") as file:
            file.write("\n".join(tests))
            file.flush()
            second = run_pytest(f"@{file.name}")
        if second.code not in (0, 1):
            return second.code
    judged = judge(first, second)
    report(tier, first, judged)
    return 0 if judged.is_passed else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tier", choices=("quick", "all"))
    parser.add_argument("-n", dest="workers", type=int)
    options, rest = parser.parse_known_args()
    workers = WORKERS[options.tier] if options.workers is None else options.workers
    sys.exit(main(options.tier, workers, rest))
