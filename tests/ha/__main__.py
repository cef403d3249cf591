"""Run every fault of the engines and every rolling deploy, print the table, and write docs/ha-results.md (`make ha`).

`python -m tests.ha --only valkey` runs one part, and `--quick` has the engines notice faults sooner than in production;
both write no page. The exit code is 1 if something was lost, a promise was broken, or the audit found a violation.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping

import attrs

from tests.ha import postgres, programs, report, rolling, valkey


@attrs.frozen(kw_only=True)
class Part:
    """The faults of one engine, or the rolling deploys. `note` describes the setup, `missing` what must be installed."""

    run: Callable[..., AsyncIterator[report.Outcome]]
    note: Callable[..., str]
    missing: Callable[[], str] = str


PARTS: Mapping[str, Part] = {
    "postgres": Part(run=postgres.run, note=postgres.note, missing=programs.missing),
    "valkey": Part(run=valkey.run, note=valkey.note),
    "rolling": Part(run=rolling.run, note=rolling.note, missing=rolling.missing),
}


async def run(parts: list[Part], *, quick: bool) -> list[report.Outcome]:
    """Run the parts, printing each row as soon as it is measured."""
    print(report.COLUMNS, flush=True)
    outcomes = []
    for part in parts:
        async for outcome in part.run(quick=quick):
            print(outcome.row(), flush=True)
            outcomes.append(outcome)
    return outcomes


def main() -> int:
    """Run everything; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.ha")
    parser.add_argument("--only", choices=PARTS, help="run this part alone, and write no page")
    parser.add_argument("--quick", action="store_true", help="engines notice faults sooner, fewer users; write no page")
    chosen = parser.parse_args()
    parts = [part for name, part in PARTS.items() if chosen.only in (None, name)]
    if missing := "\n".join(filter(None, (part.missing() for part in parts))):
        print(missing, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that frozen servers are killed
    outcomes = asyncio.run(run(parts, quick=chosen.quick))
    if chosen.only is None and not chosen.quick:
        where = (
            f"All engines and the service shared one machine with {os.cpu_count()} processors. Phones wait up to five "
            "seconds at random before they connect again, which is part of the gaps."
        )
        report.write(outcomes, [where, *(part.note(quick=False) for part in parts)])
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
