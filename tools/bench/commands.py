"""`sesi bench` and `sesi grow` on the command line. Their modules are imported only when a command runs."""

import argparse
import asyncio
import pathlib
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from core.base.process import end_as_by_hand
from tools.bench.names import NAMES
from tools.commands.arguments import between

console = Console(highlight=False)


def _bench(args: argparse.Namespace) -> int:
    from tools.bench import main

    _check_files(args)
    end_as_by_hand()
    if args.compare is not None:
        return _compare(args)
    if args.pairs is not None:
        raise RuntimeError("--pairs: expected --compare REV")
    if args.page is not None and not args.page.is_file():
        raise RuntimeError(f"{args.page}: file not found")
    wish = main.BenchWish(
        names=tuple(args.names),
        runs=args.runs,
        seconds=args.seconds,
        template=args.template,
        json=args.json,
        baseline=args.baseline,
        page=args.page,
        profile=args.profile,
        peers=not args.no_peers,
    )
    return main.bench(wish, console)


def _check_files(args: argparse.Namespace) -> None:
    """Raise RuntimeError for wrong files, before the runs, which may take an hour."""
    if args.baseline is not None and not args.baseline.is_file():
        raise RuntimeError(f"{args.baseline}: file not found")
    for path in (args.json, args.page):
        if path is not None and not path.absolute().parent.is_dir():
            raise RuntimeError(f"{path}: its directory does not exist")


def _compare(args: argparse.Namespace) -> int:
    from tools.bench import compare, sockets
    from tools.bench.running import BenchFailed

    others = ("runs", "template", "baseline", "page", "profile")
    if given := [name for name in others if getattr(args, name)]:
        raise RuntimeError(f"--{given[0]}: expected without --compare")
    sockets.allow_files(65_536)
    asked = compare.CompareOptions(
        rev=args.compare,
        names=tuple(args.names) or compare.LOADS,
        pairs=args.pairs or compare.PAIRS,
        seconds=args.seconds or compare.SECONDS,
        json=args.json,
    )
    try:
        return compare.compare(asked, console)
    except BenchFailed as error:
        raise RuntimeError(str(error)) from error


def _grow(args: argparse.Namespace) -> int:
    from tools.bench import grow
    from tools.commands import environment, migrate, progress

    settings = environment.read()
    if settings.environment == "production":
        raise RuntimeError(
            "ENVIRONMENT: expected development or test: this command fills the database with made-up data"
        )
    if missing := asyncio.run(migrate.pending(settings.database_url)):
        raise RuntimeError(f"{len(missing)} migrations to run first: use `sesi migrate`")
    wish = grow.GrowthWish(
        sessions=args.sessions,
        messages=args.messages,
        notifications=args.notifications,
        months=args.months,
        seed=args.seed,
        more=args.more,
    )
    try:
        with progress.shown("grow") as report:
            sizes = asyncio.run(grow.grow(settings.database_url, wish, console.print, report))
    except grow.NotGrown as error:
        raise RuntimeError(str(error)) from error
    table = Table("table", "rows", "MB", "MB of indexes")
    for size in sizes:
        table.add_row(size.name, f"{size.rows:,}", f"{size.heap / 1e6:,.0f}", f"{size.indexes / 1e6:,.0f}")
    console.print(table)
    console.print("Done. `sesi audit` checks the data.")
    return 0


def add_commands(add: Callable[..., Any]) -> None:
    """Add `bench` and `grow` to the command line."""
    made = add("bench", _bench, "measure the hot paths on this machine, several runs each, in turn with peers")
    made.add_argument("names", nargs="*", metavar="NAME", choices=[[], *NAMES], help=", ".join(NAMES))
    made.add_argument("--runs", type=between(int, 1, 100), metavar="N", help="runs of each benchmark (default 3 to 5)")
    made.add_argument(
        "--seconds",
        type=between(float, 0.5, 3600.0),
        metavar="S",
        help="seconds to measure each load (default 5; with --compare 4)",
    )
    made.add_argument(
        "--template",
        type=pathlib.Path,
        metavar="DIR",
        help="start with a copy of this stopped PostgreSQL cluster, in turn with an empty one",
    )
    made.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures of every run")
    made.add_argument(
        "--compare",
        metavar="REV",
        help="measure in turn with a git revision, in a temporary worktree; default benchmarks: chat-a, quiet-1000, "
        "session, availability, connects",
    )
    made.add_argument(
        "--pairs", type=between(int, 1, 100), metavar="N", help="pairs of runs with --compare (default 5)"
    )
    made.add_argument(
        "--baseline", type=pathlib.Path, metavar="FILE", help="compare the medians with those of an earlier --json FILE"
    )
    made.add_argument(
        "--page",
        type=pathlib.Path,
        metavar="FILE",
        help="write the figures into this page, such as docs/bench.md",
    )
    made.add_argument("--profile", type=pathlib.Path, metavar="DIR", help="profile the busiest process in the last run")
    made.add_argument("--no-peers", action="store_true", help="don't measure the peers")
    grown = add("grow", _grow, "fill the database with years of made-up sessions")
    grown.add_argument(
        "--sessions", type=int, default=1_000_000, metavar="N", help="number of sessions (default 1,000,000)"
    )
    grown.add_argument(
        "--messages",
        type=int,
        default=20_000_000,
        metavar="N",
        help="approximate number of messages (default 20,000,000)",
    )
    grown.add_argument(
        "--notifications",
        type=int,
        default=5_000_000,
        metavar="N",
        help="approximate number of invitations (default 5,000,000)",
    )
    grown.add_argument(
        "--months", type=between(int, 1, 240), default=24, metavar="N", help="months that the data covers (default 24)"
    )
    grown.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the made-up data (default 1)")
    grown.add_argument("--more", action="store_true", help="add to existing sessions")
