"""What a route takes and gives, read off its handler's signature."""

import inspect
import re
from functools import cache
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import attrs
from litestar import Response
from litestar.params import QueryParameter

GIVEN = frozenset({"runtime", "actor", "request", "data"})  # what the framework hands in, not the client
PATH = re.compile(r"\{(\w+):\w+\}")


@attrs.frozen(kw_only=True)
class Signature:
    """A route's parameters: path names, query names with their types, the body's class, the answer's type.

    `body` None: none is read; `loose_body`: the handler checks its fields, null is refused. `answer` None: there is no content.
    """

    path: tuple[str, ...]
    query: dict[str, Any] = attrs.field(hash=False)
    body: Any
    loose_body: bool
    answer: Any
    status: int


def _status(handler: Any) -> int:
    (method,) = handler.http_methods
    return handler.status_code or {"POST": 201, "DELETE": 204}.get(method, 200)


def _answer(hint: Any) -> Any:
    if hint is NoneType:
        return None
    return get_args(hint)[0] if get_origin(hint) is Response else hint


def _query_name(name: str, hint: Any) -> tuple[str, Any]:
    if get_origin(hint) is Annotated:
        kind, *more = get_args(hint)
        return next((m.name for m in more if isinstance(m, QueryParameter) and m.name), name), kind
    return name, hint


@cache
def signature_of(handler: Any) -> Signature:
    """Read a handler's signature. A body of loose fields (`JsonObject`) is described by the route's `body`."""
    hints = get_type_hints(handler.fn, include_extras=True)
    path = tuple(dict.fromkeys(name for address in sorted(handler.paths) for name in PATH.findall(address)))
    names = [name for name in inspect.signature(handler.fn).parameters if name not in GIVEN and name not in path]
    return Signature(
        path=path,
        query=dict(_query_name(name, hints[name]) for name in names),
        body=handler.opt.get("body", hints.get("data")),
        loose_body=get_origin(hints.get("data")) is dict,
        answer=_answer(hints["return"]),
        status=_status(handler),
    )
