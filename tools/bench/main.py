"""`sesi bench`: runs the benchmarks, and prints and saves their results."""

import contextlib
import datetime as dt
import json
import pathlib
import subprocess
import sys

import attrs
import uvloop
from rich.console import Console

from core.base.progress import Report, part
from tools.bench import page, sockets
from tools.bench.benches import BENCHES, Bench
from tools.bench.figures import Outcome, as_json, compared, outcomes_of, table
from tools.bench.machine import describe, yardstick
from tools.bench.peers.colocated import ColocatedPeer, check_installed, versions
from tools.bench.running import BenchFailed, start_service
from tools.commands import progress
from tools.driving.service import Service

PROFILE_S = 5
START_S = 6.0  # until a service with its servers runs, about


@attrs.frozen(kw_only=True)
class BenchWish:
    """The options of the command line."""

    names: tuple[str, ...] = ()
    runs: int | None = None
    seconds: float | None = None
    template: pathlib.Path | None = None
    json: pathlib.Path | None = None
    baseline: pathlib.Path | None = None
    page: pathlib.Path | None = None
    profile: pathlib.Path | None = None
    peers: bool = True


def bench(wish: BenchWish, console: Console) -> int:
    """Run the chosen benchmarks; return 1 if a goal was missed or a load failed."""
    sockets.allow_files(65_536)
    chosen = [one for one in BENCHES if one.name in wish.names or (not wish.names and one.in_all)]
    with progress.shown("bench", expected_s=sum(_seconds(one, wish) for one in chosen)) as report:
        outcomes, failed = _measure_all(chosen, wish, console, report)
    if wish.baseline is not None:
        console.print(compared(outcomes, outcomes_of(json.loads(wish.baseline.read_text()))))
    missed = [line for outcome in outcomes for line in outcome.missed()]
    for line in missed:
        console.print(f"[red]missed[/] {line}")
    return 1 if failed or missed else 0


def _measure_all(chosen: list[Bench], wish: BenchWish, console: Console, report: Report) -> tuple[list[Outcome], bool]:
    """Run benchmarks; return (results, whether a load failed)."""
    shares = [_seconds(one, wish) for one in chosen]
    outcomes: list[Outcome] = []
    failed = False
    machine, today = describe() | versions(), dt.datetime.now(dt.UTC).date().isoformat()
    for number, one in enumerate(chosen):
        outcome = Outcome(name=one.name, load=one.load, goals=one.goals, machine=machine, measured_on=today)
        begin, end = (sum(shares[:count]) / sum(shares) for count in (number, number + 1))
        try:
            _measure(one, wish, outcome, part(report, begin, end))
        except BenchFailed as error:
            console.print(f"[red]{one.name}: {error}[/]")
            failed = True
        if outcome.runs:
            outcomes.append(outcome)
            console.print(table(outcome))
            _keep(outcomes, wish)
    return outcomes, failed


def _seconds(one: Bench, wish: BenchWish) -> float:
    """Return the time that a benchmark takes, about: its runs, and those on another service in turn with them."""
    services = 1 + (wish.template is not None) + wish.peers * len(one.peers)
    return START_S + (wish.runs or one.runs) * services * one.cost_s(wish.seconds or one.seconds)


def _measure(one: Bench, wish: BenchWish, outcome: Outcome, report: Report) -> None:
    """Run one benchmark as often as asked, in turn with its peer, and with a template also in turn with an empty
    database.

    Raises BenchFailed.
    """
    seconds, runs = wish.seconds or one.seconds, wish.runs or one.runs
    report(0.0, f"{one.name}, its service starts")
    with contextlib.ExitStack() as begun:
        service = start_service(apis=one.apis, hubs=one.hubs, template=wish.template)
        begun.callback(service.close)
        empty, peers = None, list[ColocatedPeer]()
        if wish.template is not None:
            empty = start_service(apis=one.apis, hubs=one.hubs)
            begun.callback(empty.close)
        for key in one.peers if wish.peers else ():
            peers.append(ColocatedPeer(key, service))
            begun.callback(peers[-1].close)
        for turn in range(1, runs + 1):
            report((turn - 1) / runs, f"{one.name}, run {turn} of {runs}")
            one.prepare(service)
            profiler = _profile(one, wish, service) if wish.profile is not None and turn == runs else None
            before = yardstick()
            figures = uvloop.run(one.run(service, seconds))
            figures["yardstick ms"] = (before + yardstick()) / 2
            if profiler is not None:
                profiler.wait()
            if empty is not None:
                one.prepare(empty)
                figures |= {f"empty: {name}": value for name, value in uvloop.run(one.run(empty, seconds)).items()}
            for peer in peers:
                figures |= _beside(peer, one, figures, seconds)
            outcome.runs.append(figures)


def _beside(peer: ColocatedPeer, one: Bench, ours: dict[str, float], seconds: float) -> dict[str, float]:
    """Run the load on a peer; return its figures, and the ratios of ours to them. Raises BenchFailed."""
    assert one.run_peer is not None
    if one.fresh:
        peer.restart()
    theirs = uvloop.run(one.run_peer(peer, seconds))
    return {
        **{f"{figure}: ratio to {peer.name}": ours[figure] / theirs[figure] for figure in one.ratios},
        **{f"{peer.name}: {name}": value for name, value in theirs.items()},
    }


def _profile(one: Bench, wish: BenchWish, service: Service) -> subprocess.Popen[bytes]:
    """Start a profile of the busiest process, for https://www.speedscope.app."""
    assert wish.profile is not None
    check_installed()
    wish.profile.mkdir(parents=True, exist_ok=True)
    target = wish.profile / f"{one.name}.speedscope.json"
    command = [
        str(pathlib.Path(sys.executable).with_name("py-spy")), "record", "--pid", str(service.processes[one.hot].pid), "--rate", "250",
        "--duration", str(PROFILE_S), "--format", "speedscope", "--output", str(target),
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _keep(outcomes: list[Outcome], wish: BenchWish) -> None:
    """Save the results so far, in case a later benchmark fails."""
    if wish.json is not None:
        wish.json.write_text(json.dumps(as_json(outcomes), indent=1) + "\n")
    if wish.page is not None:
        page.write(wish.page, outcomes)
