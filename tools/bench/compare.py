"""`sesi bench --compare REV`: measures the present tree and a revision in turn, with the same load generator."""

import contextlib
import json
import math
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import attrs
import uvloop
from rich.console import Console
from rich.table import Table

from core.base.progress import Report, part
from tools.bench import http, revision
from tools.bench.benches import BENCHES, Bench
from tools.bench.figures import number, spread
from tools.bench.machine import describe, yardstick
from tools.bench.ratios import ABOUT_THE_MACHINE, Ratios, RatioVerdict, ratios
from tools.bench.running import BenchFailed, start_service
from tools.commands import environment, progress
from tools.driving.service import Service

# Quick ones, each for a different path: stored messages, latency at a low rate, REST, a polled count, socket sign-in.
LOADS = ("chat-a", "quiet-1000", "session", "availability", "connects")
PAIRS = 5
SECONDS = 4.0
PATIENCE_S = 600.0
OURS = "ours"
Figures = dict[str, float]


@attrs.frozen(kw_only=True)
class CompareOptions:
    """The options of the command line. `seconds`: how long each run is measured."""

    rev: str
    names: tuple[str, ...] = LOADS
    pairs: int = PAIRS
    seconds: float = SECONDS
    json: pathlib.Path | None = None


@attrs.define(kw_only=True)
class Compared:
    """The runs of one load. `generator`: the tree whose load generator was used on the revision."""

    name: str
    load: str
    generator: str = OURS
    now: list[Figures] = attrs.field(factory=list)
    before: list[Figures] = attrs.field(factory=list)

    def ratios(self) -> list[Ratios]:
        """Return the ratios of each figure."""
        return ratios(self.now, self.before)

    def worse(self) -> list[str]:
        """Return the figures in which the present tree is worse."""
        return [
            one.figure
            for one in self.ratios()
            if one.verdict is RatioVerdict.WORSE and one.figure not in ABOUT_THE_MACHINE
        ]


def compare(asked: CompareOptions, console: Console) -> int:
    """Measure both trees, and print and save the results. Return 1 if a figure is worse or a load failed.

    Raises BenchFailed if the revision can't be prepared.
    """
    with contextlib.ExitStack() as begun:
        rev = revision.check_out(asked.rev, lambda line: console.print(line, style="dim", markup=False))
        begun.callback(rev.close)
        done: list[Compared] = []
        failed = False
        chosen = [one for one in BENCHES if one.name in asked.names]
        expected_s = 2 * asked.pairs * sum(one.cost_s(asked.seconds) for one in chosen)
        report = begun.enter_context(progress.shown("compare", expected_s=expected_s))
        for number, bench in enumerate(chosen):
            one = Compared(name=bench.name, load=bench.load)
            try:
                its_report = part(report, number / len(chosen), (number + 1) / len(chosen))
                _measure(bench, rev, asked, one, console, its_report)
            except (BenchFailed, http.RequestRefused) as error:
                console.print(f"[red]{bench.name}: {error}[/]")
                failed = True
                continue
            done.append(one)
            console.print(table(one, rev.name))
            if asked.json is not None:  # after each load, in case a later one fails
                asked.json.write_text(json.dumps(as_json(done, rev), indent=1) + "\n")
    worse = [f"{one.name}: {figure}" for one in done for figure in one.worse()]
    for line in worse:
        console.print(f"[red]worse[/] {line}")
    return 1 if failed or worse else 0


def _measure(
    bench: Bench, rev: revision.Revision, asked: CompareOptions, one: Compared, console: Console, report: Report
) -> None:
    """Run one load in pairs, the present tree first. Raises BenchFailed."""
    with contextlib.ExitStack() as begun:
        ours = start_service(apis=bench.apis, hubs=bench.hubs)
        begun.callback(ours.close)
        try:
            theirs = start_service(apis=bench.apis, hubs=bench.hubs, code=rev.code)
        except AssertionError as error:
            raise BenchFailed(f"{rev.name} does not start: {error}") from error
        begun.callback(theirs.close)
        for turn in range(1, asked.pairs + 1):
            report((turn - 1) / asked.pairs, f"{bench.name}, pair {turn} of {asked.pairs}")
            one.now.append(_timed(lambda: _run(bench, ours, asked.seconds)))
            one.before.append(_timed(lambda: _run_theirs(bench, theirs, rev, asked, one, console)))


def _run(bench: Bench, service: Service, seconds: float) -> Figures:
    """Run the load once with our generator."""
    bench.prepare(service)
    return uvloop.run(bench.run(service, seconds))


def _run_theirs(
    bench: Bench, theirs: Service, rev: revision.Revision, asked: CompareOptions, one: Compared, console: Console
) -> Figures:
    """Run the load on the revision with our generator, or with the revision's own if ours fails on it.

    The first pair decides which one is used. Raises BenchFailed.
    """
    if one.generator == OURS:
        try:
            return _run(bench, theirs, asked.seconds)
        except Exception as error:
            if one.before:
                raise BenchFailed(f"{rev.name}: {error}") from error
            console.print(f"our load generator fails on {rev.name} ({error}); using its own", markup=False)
            one.generator = rev.name
    return _their_own(bench.name, rev, asked.seconds)


def _their_own(name: str, rev: revision.Revision, seconds: float) -> Figures:
    """Run the revision's own `sesi bench` once; return its figures. Raises BenchFailed if it doesn't have the load."""
    assert rev.code.folder is not None
    found = rev.code.folder.parent / "figures.json"
    found.unlink(missing_ok=True)
    command = [
        rev.code.python, "-m", "tools.cli", "bench", name,
        "--runs", "1", "--seconds", str(seconds), "--no-peers", "--json", str(found),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=rev.code.folder, env=environment.without_settings(), capture_output=True, text=True,
        timeout=PATIENCE_S + 4 * seconds, check=False,
    )  # fmt: skip
    try:
        return json.loads(found.read_text())["benches"][name]["runs"][0]
    except (OSError, ValueError, LookupError) as error:
        raise BenchFailed(f"{rev.name} cannot run {name}: {(done.stderr or done.stdout).strip()[-500:]}") from error


def _timed(run: Callable[[], Figures]) -> Figures:
    """Run a load, and add the machine's speed before and after it to the figures."""
    before = yardstick()
    figures = run()
    return {**figures, "yardstick ms": (before + yardstick()) / 2}


def table(one: Compared, rev: str) -> Table:
    """Return the table of one load: medians; the smallest, median and largest ratio; and the verdict."""
    made = Table(title=f"{one.name}: {one.load}", title_justify="left", title_style="bold")
    made.add_column("figure")
    for column in (rev, "now", "ratio", "min", "max", "verdict"):
        made.add_column(column, justify="right")
    for found in one.ratios():
        verdict = "" if found.figure in ABOUT_THE_MACHINE else found.verdict.value
        made.add_row(
            found.figure,
            *(number(spread([run[found.figure] for run in runs]).median) for runs in (one.before, one.now)),
            *(f"{value:.2f}" for value in (found.median, found.least, found.most)),
            f"[red]{verdict}[/]" if found.figure in one.worse() else verdict,
        )
    return made


def as_json(done: list[Compared], rev: revision.Revision) -> dict[str, Any]:
    """Return all results as JSON data."""
    return {
        "machine": describe(),
        "revision": {"name": rev.name, "commit": rev.commit},
        "loads": {
            one.name: {
                "load": one.load,
                "generator": one.generator,
                "now": one.now,
                "before": one.before,
                "ratios": {
                    found.figure: {
                        **{
                            name: value if math.isfinite(value) else None  # JSON has no infinity
                            for name, value in (("median", found.median), ("min", found.least), ("max", found.most))
                        },
                        "verdict": None if found.figure in ABOUT_THE_MACHINE else found.verdict.value,
                    }
                    for found in one.ratios()
                },
            }
            for one in done
        },
    }
