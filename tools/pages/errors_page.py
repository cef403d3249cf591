"""The codes of docs/errors.md: each error code with its status, message and cause, and what a client does about it.

Status, message and cause come from the error classes and the routes. What a client does is in ADVICE; a test checks
that ADVICE has every code.
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
from core.base.errors import DomainError
from core.base.languages import Text
from tools.pages.errors_advice import ADVICE, Repeat

ROOT = pathlib.Path(__file__).parents[2]
PACKAGES = ("core", "api", "realtime")


@attrs.frozen(kw_only=True)
class ListedCode:
    """One error code as the page shows it. `status` is None for codes that only sockets use."""

    name: str
    status: int | None
    message: Text | None
    when: str


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
    advice = {name: one for some in ADVICE.values() for name, one in some.items()}
    found = {
        error.code: ListedCode(name=error.code, status=STATUS[error.kind], message=error.message, when=_cause(error))
        for error in _subclasses(DomainError)
        if error.__module__.split(".")[0] in PACKAGES
    }
    plain = [one for one in vars(refusals).values() if isinstance(one, Refusal)]
    for refusal in plain:
        when = advice[refusal.code].when if refusal.code in advice else None
        found[refusal.code] = ListedCode(
            name=refusal.code, status=refusal.status, message=refusal.message, when=when or ""
        )
    others: dict[str, Text | None] = {"ERROR": http_texts.UNANSWERABLE, "INVALID_FRAME": None, "UNKNOWN_TYPE": None}
    for name, message in others.items():
        found[name] = ListedCode(name=name, status=None, message=message, when=advice[name].when or "")
    return found


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
    advice = {name: one for some in ADVICE.values() for name, one in some.items()}
    for name in sorted(known):
        status = known[name].status or ("frame only" if known[name].message is None else "as sent")
        lines.append(f"| [`{name}`](#{name.lower()}) | {status} | {advice[name].repeat.name.lower()} |")
    for section, some in ADVICE.items():
        lines += ["", f"## {section}"]
        for name, one in some.items():
            code = known[name]
            lines += ["", f"### {name}", ""]
            if code.message is not None:
                lines += [f"{code.status or 'The status as sent'}: “{code.message.en}”", ""]
            lines += [f"- When: {code.when}", f"- Client: {one.then}"]
            if name in where:
                lines.append(f"- Routes: {', '.join(f'`{route}`' for route in where[name])}")
    return "\n".join(lines) + "\n"
