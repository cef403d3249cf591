"""`sesi simulate`: forecast what other settings would do (docs/simulation.md)."""

import argparse
import asyncio
import json

import msgspec
from rich.table import Table

from core.base.progress import part
from core.pairing.simulation.forecast import forecast
from core.pairing.simulation.history import read_history
from core.pairing.simulation.rules import DAY, Change, Forecast, NotEnoughHistory
from core.runtime.container import Runtime
from tools.commands import progress
from tools.commands.running import Failed, console, with_runtime

READING = 0.2  # share of the work
FIGURES = {
    "unserved": ("unserved searches", "{:.1%}"),
    "wait_p50": ("half wait at most", "{:.1f} s"),
    "wait_p90": ("nine of ten wait at most", "{:.0f} s"),
    "phones_rung": ("phones rung for a search", "{:.1f}"),
    "load": ("chats of an online mitra", "{:.2f}"),
}


def simulate(args: argparse.Namespace) -> int:
    """Print a forecast."""
    change = Change(settings=dict(_setting(text) for text in args.set), extra_shifts=args.add)
    change.check()

    async def work(runtime: Runtime) -> int:
        await runtime.reports.check()  # whether the replica is current
        runtime.tasks.spawn(runtime.reports.watch())
        until = runtime.now()
        with progress.shown("simulate") as report:
            report(0.0, "reading the history")
            history = await read_history(runtime.reports, runtime.config, until - args.since * DAY, until)
            # In a thread, because it computes for up to two minutes.
            found = await asyncio.to_thread(forecast, history, change, progress=part(report, READING, 1.0))
        if args.json:
            print(msgspec.json.format(msgspec.json.encode(found)).decode())
        else:
            _show(found)
        return 0

    try:
        return with_runtime(work)
    except NotEnoughHistory as error:
        raise Failed(f"{error} {json.dumps(error.details)}") from error


def _setting(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not value.isdecimal():
        raise Failed(f"--set {text}: write ROW=VALUE, such as blast_size=5")
    return name, int(value)


def _show(found: Forecast) -> None:
    table = Table("", "now", "forecast", "in 9 of 10 cases", "last week: would have forecast", "happened")
    for row, test in zip(found.rows, found.back_test, strict=True):
        label, words = FIGURES[row.figure]
        values = (row.present, row.forecast, row.low, row.high, test.forecast, test.happened)
        now, then, low, high, guess, fact = map(words.format, values)
        table.add_row(label, now, then, f"{low} to {high}", guess, fact)
    console.print(table)
    console.print(
        f"From {found.searches} searches of {found.days} days. {found.guessed:.1%} of the acceptances are guessed."
    )
    console.print("If mitras change their behaviour because of the settings, no forecast from the past shows it.")
