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
_level = logging.INFO


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


def configure(process: str, *, level: str = "info") -> None:
    """Set up logging for this process, from this level on (LOG_LEVEL). Log lines of libraries get the same form."""
    global _process, _level
    _process, _level = process, logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_data,
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(_level),
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
    root.setLevel(_level)
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    structlog.contextvars.bind_contextvars(process=process)


def write_line(fields: dict[str, Any], *, at: dt.datetime, level: str = "info") -> None:
    """Write one line of plain values at a level, info or debug, without the processors: for the line of every request.

    That costs a tenth of a logger's call. `at` is real time. A failed write is ignored, so that it fails no request.
    """
    if _level > (logging.DEBUG if level == "debug" else logging.INFO):
        return
    line = msgspec.json.encode({**fields, "process": _process, "level": level, "timestamp": as_text(at)})
    with contextlib.suppress(OSError):
        os.write(STDERR, line + b"\n")


def get(name: str) -> structlog.stdlib.BoundLogger:
    """Return a logger whose lines have `name` as their component."""
    return structlog.get_logger(component=name)
