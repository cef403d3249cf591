"""Commands that run or show the whole service: on this machine, demo, settings, interface documents, doctor."""

import argparse
import asyncio
import collections
import json

import attrs
from rich.markup import escape
from rich.table import Table

from core.base.process import end_as_by_hand
from core.settings.settings import SettingsError, shown
from tools.commands import environment
from tools.commands.running import console
from tools.doctor import examination
from tools.doctor.findings import Result

MARKS = {Result.OK: "[green]ok[/]  ", Result.WARNING: "[yellow]warn[/]", Result.FAILURE: "[red]bad[/] "}


def up(_: argparse.Namespace) -> int:
    """Run the whole service on this machine."""
    from tools.commands.up import Edition, up

    return asyncio.run(up(environment.read(servers=False), Edition()))


def trial(args: argparse.Namespace) -> int:
    """Run the service for trying it out in a browser."""
    from tools.commands.trial import run

    return run(args.scale)


def demo(args: argparse.Namespace) -> int:
    """Play a paid session; return 1 if a check of the demo failed."""
    from tools.commands.demo import demo

    end_as_by_hand()
    return asyncio.run(demo(scale=args.scale, running=args.running))


def settings(_: argparse.Namespace) -> int:
    """Show every setting with its default and effective value."""
    try:
        settings = environment.read()
    except SettingsError:  # no embedded servers run, so their addresses are unknown
        settings = environment.read(servers=False)
    table = Table()
    for title in ("variable", "default", "effective"):
        table.add_column(title, overflow="fold")
    for row in shown(settings):
        table.add_row(*map(escape, row))
    console.print(table)
    return 0


def openapi(args: argparse.Namespace) -> int:
    """Print the OpenAPI document of a listener."""
    from api.apps import interface

    print(json.dumps(interface(args.listener), indent=2, ensure_ascii=False))
    return 0


def asyncapi(_: argparse.Namespace) -> int:
    """Print the AsyncAPI document."""
    from realtime import asyncapi

    print(asyncapi.encoded(environment.read(servers=False)).decode())
    return 0


def run_doctor(args: argparse.Namespace) -> int:
    """Check the installation; return 1 if a check failed, or with `--strict` if one warned."""
    options = examination.Options(
        url=args.url, stop_seconds=args.stop_seconds, stanza=args.stanza, backup_config=args.backup_config
    )
    found = examination.run(options)
    counts = collections.Counter(one.result for one in found)
    bad = counts[Result.FAILURE] + (counts[Result.WARNING] if args.strict else 0)
    if args.json:
        print(json.dumps({"bad": bad, "findings": [attrs.asdict(one) for one in found]}, indent=2))
        return 1 if bad else 0
    for one in found:
        console.print(f"{MARKS[one.result]} {escape(one.check)}: {escape(one.text)}")
    problems = f"{counts[Result.FAILURE]} problems and {counts[Result.WARNING]} warnings found."
    console.print(problems if counts[Result.FAILURE] or counts[Result.WARNING] else "No problems found.")
    return 1 if bad else 0
