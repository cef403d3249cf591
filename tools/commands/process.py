"""Commands that are a process of the service. They import nothing that other commands need."""

import argparse
import gc
import importlib
import sys

import uvloop

from tools.commands import environment


def api(_: argparse.Namespace) -> int:
    """Run an API process."""
    return _serve("api")


def realtime(_: argparse.Namespace) -> int:
    """Run a realtime process."""
    return _serve("realtime")


def jobs(_: argparse.Namespace) -> int:
    """Run a jobs process."""
    return _serve("jobs")


def _serve(name: str) -> int:
    # structlog imports rich, where that is installed, for a renderer that no process uses: 4 MB.
    sys.modules["rich"] = None  # type: ignore[assignment]
    gc.set_threshold(700, 10, 1_000)  # a start leaves little to a full collection: tune_gc makes one at its end
    from core.telemetry import logs, traces

    server = importlib.import_module(f"{name}.server")
    settings = environment.read()
    logs.configure(name, level=settings.log_level)
    traces.start(settings, process=name)
    try:
        return uvloop.run(server.serve(settings))
    finally:
        traces.stop()
