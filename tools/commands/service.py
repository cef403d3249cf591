"""Commands that run or show the service: processes, demo, settings, interface documents, doctor."""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from rich.markup import escape
from rich.table import Table

from core.base import logs
from core.base.process import end_as_by_hand
from core.base.settings import SettingsError, shown
from tools import doctor, environment
from tools.commands.running import console


def api(_: argparse.Namespace) -> int:
    """Run an API process."""
    from api.server import serve

    return _serve("api", serve)


def realtime(_: argparse.Namespace) -> int:
    """Run a realtime process."""
    from realtime.server import serve

    return _serve("realtime", serve)


def jobs(_: argparse.Namespace) -> int:
    """Run a jobs process."""
    from jobs.server import serve

    return _serve("jobs", serve)


def _serve(name: str, serve: Callable[[Any], Awaitable[int]]) -> int:
    settings = environment.read()
    logs.configure(name)
    return uvloop.run(serve(settings))  # type: ignore[arg-type]


def up(_: argparse.Namespace) -> int:
    """Run the whole service on this machine."""
    from tools.up import Edition, up

    return asyncio.run(up(environment.read(servers=False), Edition()))


def trial(args: argparse.Namespace) -> int:
    """Run the service for trying it out in a browser."""
    from tools.trial import run

    return run(args.scale)


def demo(args: argparse.Namespace) -> int:
    """Play a paid session; return 1 if a check of the demo failed."""
    from tools.demo import demo

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


def run_doctor(_: argparse.Namespace) -> int:
    """Check the installation; return 1 if there is a problem."""
    checks = doctor.run()
    for what, well, finding in checks:
        console.print(f"{'[green]ok[/]  ' if well else '[red]bad[/] '} {escape(what)}: {escape(finding)}")
    bad = sum(not well for _, well, _ in checks)
    console.print("No problems found." if not bad else f"{bad} problems found.")
    return 1 if bad else 0
