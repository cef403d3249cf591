"""Run every fault of the engines, print the table, and write docs/ha-results.md (`make ha`).

`python -m tests.ha --ttl 8` gives Patroni a shorter time than production allows, and writes no page. The exit code is 1
if something was lost, or if the audit found a violation.
"""

import argparse
import asyncio
import os
import signal
import sys

from tests.ha import postgres, programs, report

PRODUCTION_TTL_S = 20  # the least that Patroni accepts


async def run(ttl: int) -> list[report.Outcome]:
    """Run all parts, printing each row as soon as it is measured."""
    print(report.COLUMNS, flush=True)
    outcomes = []
    async for outcome in postgres.run(ttl=ttl):
        print(outcome.row(), flush=True)
        outcomes.append(outcome)
    return outcomes


def main() -> int:
    """Run everything; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.ha")
    parser.add_argument(
        "--ttl", type=int, default=PRODUCTION_TTL_S, help="seconds until Patroni replaces a silent leader"
    )
    ttl = parser.parse_args().ttl
    if missing := programs.missing():
        print(missing, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that frozen servers are killed
    outcomes = asyncio.run(run(ttl))
    if ttl >= PRODUCTION_TTL_S:
        notes = [
            f"All engines and the service shared one machine with {os.cpu_count()} processors. Phones wait up to five "
            "seconds at random before they connect again, which is part of the gaps.",
            f"Patroni {postgres.PATRONI} with `ttl: {ttl}`, `loop_wait: 1`, `retry_timeout: 3`, `synchronous_mode: true`.",
        ]
        report.write(outcomes, notes)
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
