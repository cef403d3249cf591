"""Types of ASGI, and accessors of a request for the layers around the application."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def path_of(scope: Scope) -> str:
    """Return a request's path without one slash at the end; `/` for the root."""
    return scope["path"].removesuffix("/") or "/"


def is_alias(scope: Scope) -> bool:
    """Return whether a path is another form of a route's path, which the framework would route like it.

    Such a path has an empty segment (but for one slash at the end), a segment `.` or `..`, or an encoded slash.
    """
    segments = path_of(scope).split("/")[1:]
    plain_root = scope["path"] in ("", "/")
    return b"%2f" in scope["raw_path"].lower() or (not plain_root and not {"", ".", ".."}.isdisjoint(segments))


def headers_of(scope: Scope) -> dict[str, str]:
    """Return a request's headers as a dict.

    If a header occurs twice the first counts, as in the framework. Otherwise a client could be one user for the rate
    limits and another one for the route.
    """
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def forwarded_of(scope: Scope) -> list[str]:
    """Return the lines of X-Forwarded-For."""
    return [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]


def is_preflight(scope: Scope, headers: dict[str, str]) -> bool:
    """Return whether a request is a browser's CORS preflight."""
    return scope["method"] == "OPTIONS" and "origin" in headers


def host_of(scope: Scope) -> str:
    """Return the client's address; empty if it is unknown."""
    return scope["client"][0] if scope.get("client") else ""
