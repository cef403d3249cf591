"""Structured logs: one JSON line per event, with the ids of request and session, without personal data.

docs/security.md#logs lists the lines.
"""

import contextlib
import datetime as dt
import logging
import os
import sys
import traceback
from typing import Any

import msgspec
import structlog

from core.base.clock import as_text

STDERR = 2
_process = ""


def _without_data(_: object, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Replace a database error by its type, SQLSTATE and traceback: its text quotes rows with personal data."""
    error = event.get("exc_info")
    if error is True:
        error = sys.exc_info()
    if isinstance(error, tuple):
        error = error[1]
    state = getattr(error, "sqlstate", None)
    if isinstance(error, BaseException) and state is not None:
        places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-6:]]
        event["exc_info"] = None
        event["exception"] = f"{type(error).__name__} {state} at {' < '.join(reversed(places))}"
    return event


def configure(process: str, *, level: int = logging.INFO) -> None:
    """Set up logging for this process. Log lines of libraries get the same form."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_data,
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    structlog.contextvars.bind_contextvars(process=process)
    global _process  # noqa: PLW0603 - one process has one name
    _process = process


def write_line(fields: dict[str, Any], *, at: dt.datetime) -> None:
    """Write one line of plain values at the level info without the processors, for the line of every request.

    That costs a tenth of a logger's call. `at` is real time. A failed write is ignored, so that it fails no request.
    """
    line = msgspec.json.encode({**fields, "process": _process, "level": "info", "timestamp": as_text(at)})
    with contextlib.suppress(OSError):
        os.write(STDERR, line + b"\n")


def get(name: str) -> structlog.stdlib.BoundLogger:
    """Return a logger whose lines have `name` as their component."""
    return structlog.get_logger(component=name)
