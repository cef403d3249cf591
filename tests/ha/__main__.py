"""Run every fault of the engines and every rolling deploy, print the table, and write docs/ha-results.md (`make ha`).

`python -m tests.ha --only rolling` runs one part, and `--ttl 8` gives Patroni a shorter time than production allows;
both write no page. The exit code is 1 if something was lost, a promise was broken, or the audit found a violation.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from tests.ha import postgres, programs, report, rolling
from tests.ha.report import Outcome

PRODUCTION_TTL_S = 20  # the least that Patroni accepts


async def run(parts: Sequence[AsyncIterator[Outcome]]) -> list[Outcome]:
    """Run the parts one after the other, printing each row as soon as it is measured."""
    print(report.COLUMNS, flush=True)
    outcomes = []
    for part in parts:
        async for outcome in part:
            print(outcome.row(), flush=True)
            outcomes.append(outcome)
    return outcomes


def main() -> int:
    """Run everything; return the exit code."""
    parts: Mapping[str, Callable[[int], AsyncIterator[Outcome]]] = {
        "postgres": lambda ttl: postgres.run(ttl=ttl),
        "rolling": lambda _: rolling.run(),
    }
    parser = argparse.ArgumentParser(prog="python -m tests.ha")
    parser.add_argument("--only", choices=parts, help="run one part")
    parser.add_argument(
        "--ttl", type=int, default=PRODUCTION_TTL_S, help="seconds until Patroni replaces a silent leader"
    )
    args = parser.parse_args()
    if missing := programs.missing():
        print(missing, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that frozen servers are killed
    names = [args.only] if args.only else list(parts)
    outcomes = asyncio.run(run([parts[name](args.ttl) for name in names]))
    if args.ttl >= PRODUCTION_TTL_S and not args.only:
        notes = [
            f"All engines and the service shared one machine with {os.cpu_count()} processors. Phones wait up to five "
            "seconds at random before they connect again, which is part of the gaps.",
            f"Patroni {postgres.PATRONI} with `ttl: {args.ttl}`, `loop_wait: 1`, `retry_timeout: 3`, "
            "`synchronous_mode: true`.",
        ]
        report.write(outcomes, notes)
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
