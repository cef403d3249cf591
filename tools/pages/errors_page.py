"""The codes of docs/errors.md: each error code with its status, message and cause, and what a client does about it.

All of it comes from the error classes and the routes; PLAIN has the codes without a class.
"""

import importlib
import inspect
import pathlib
import pkgutil
import re
from collections.abc import Iterator

import attrs

from api import apps, refusals
from api.auth import Access
from api.refusals import STATUS, Refusal
from core.accounts.operators.totp import TotpRequired
from core.base import http_texts
from core.base.errors import DomainError, Repeat
from core.base.languages import Text

ROOT = pathlib.Path(__file__).parents[2]
PACKAGES = ("core", "api", "realtime")


@attrs.frozen
class ListedCode:
    """One error code as the page shows it. `status` is None for codes that only sockets use."""

    status: int | None
    message: Text | None
    when: str
    repeat: Repeat
    advice: str


# Codes without an error class: when they are answered, whether to repeat the request, and what a client does.
PLAIN: dict[str, tuple[str, Repeat, str]] = {
    "INTERNAL_ERROR": (
        "Something unforeseen failed. The log has the cause, by `details.request_id`.",
        Repeat.YES,
        "Repeat it with its key after a pause. Show `details.request_id` to the user, for support.",
    ),
    "MALFORMED": (
        "The request is not valid HTTP, its body can't be read, or a socket's address was called without an upgrade.",
        Repeat.NO,
        "This is a mistake in the client or a proxy.",
    ),
    "METHOD_NOT_ALLOWED": (
        "The address exists, but does not take this method.", Repeat.NO, "This is a mistake in the client.",
    ),
    "UNSUPPORTED_MEDIA_TYPE": (
        "The body's media type is not JSON.", Repeat.NO, "Send `Content-Type: application/json`.",
    ),
    "BODY_TOO_LARGE": ("The body is larger than 64 KiB.", Repeat.NO, "Send a smaller body."),
    "HEADERS_TOO_LARGE": (
        "The headers are larger than 64 KiB, or have more than 100 fields.", Repeat.NO, "Send fewer or shorter headers.",
    ),
    "REQUEST_TIMEOUT": (
        "The headers took longer than 10 s to arrive, or the body longer than 15 s.",
        Repeat.YES,
        "Repeat it on a new connection.",
    ),
    "ERROR": ("The request was refused before a route could answer it.", Repeat.NO, "Go by the status."),
    "INVALID_FRAME": (
        "A frame is not a JSON object with the declared fields.", Repeat.NO, "This is a mistake in the client.",
    ),
    "UNKNOWN_TYPE": ("This path has no such frame.", Repeat.NO, "This is a mistake in the client."),
}  # fmt: skip


def _subclasses(cls: type[DomainError]) -> Iterator[type[DomainError]]:
    for below in cls.__subclasses__():
        yield below
        yield from _subclasses(below)


def _cause(error: type[DomainError]) -> str:
    """Return the docstring of an error class as one paragraph, without references to the docs."""
    text = " ".join((inspect.getdoc(error) or "").split())
    return re.sub(r" \((?:docs/|contract |specification)[^)]*\)", "", text)


def codes() -> dict[str, ListedCode]:
    """Return every error code of the service, by name."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            importlib.import_module(module.name)
    found = {
        error.code: ListedCode(STATUS[error.kind], error.message, _cause(error), error.repeat, error.advice)
        for error in _subclasses(DomainError)
        if error.__module__.split(".")[0] in PACKAGES and error.code not in PLAIN
    }
    plain: dict[str, tuple[int | None, Text | None]] = {
        one.code: (one.status, one.message) for one in vars(refusals).values() if isinstance(one, Refusal)
    }
    plain |= {"ERROR": (None, http_texts.UNANSWERABLE), "INVALID_FRAME": (None, None), "UNKNOWN_TYPE": (None, None)}
    return found | {name: ListedCode(*plain[name], *texts) for name, texts in PLAIN.items()}


def routes() -> dict[str, list[str]]:
    """Return the routes that declare each code, by code. Codes that any route can answer with are missing."""
    found: dict[str, set[str]] = {}
    for handler in [*apps.PUBLIC, *apps.INTERNAL]:
        access: Access = handler.opt["access"]
        for error in (*access.refusals, *((TotpRequired,) if access.step_up else ())):
            for method in handler.http_methods:
                for path in handler.paths:
                    address = re.sub(r"\{(\w+):\w+\}", r"{\1}", path)
                    found.setdefault(error.code, set()).add(f"{method} {address}")
    return {code: sorted(some, key=lambda one: one.split()[::-1]) for code, some in found.items()}


def listed() -> str:
    """Return the table of all codes, and a section for each."""
    known, where = codes(), routes()
    lines = [f"- *{one.name.lower()}*: {one.value}" for one in Repeat]
    lines += ["", "| code | status | repeat |", "|---|---|---|"]
    for name, code in sorted(known.items()):
        status = code.status or ("frame only" if code.message is None else "as sent")
        lines.append(f"| [`{name}`](#{name.lower()}) | {status} | {code.repeat.name.lower()} |")
    lines += ["", "## Each code"]
    for name, code in sorted(known.items()):
        lines += ["", f"### {name}", ""]
        if code.message is not None:
            lines += [f"{code.status or 'The status as sent'}: “{code.message.en}”", ""]
        lines += [f"- When: {code.when}", f"- Client: {code.advice}"]
        if name in where:
            lines.append(f"- Routes: {', '.join(f'`{route}`' for route in where[name])}")
    return "\n".join(lines)
