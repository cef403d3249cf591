"""Commands that are a process of the service. They import nothing that other commands need."""

import argparse
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from core.telemetry import logs, traces
from tools.commands import environment


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
    logs.configure(name, level=settings.log_level)
    traces.start(settings, process=name)
    try:
        return uvloop.run(serve(settings))  # type: ignore[arg-type]
    finally:
        traces.stop()
