"""The parameters, body and answer of a route, read from its handler's signature."""

import inspect
import re
from collections.abc import Iterator
from functools import cache
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import attrs
from litestar import Response
from litestar.params import QueryParameter

GIVEN = frozenset({"runtime", "actor", "request", "data"})  # passed in by the framework, not sent by the client
PATH = re.compile(r"\{(\w+):\w+\}")


@attrs.frozen(kw_only=True)
class Signature:
    """A route's path parameters, query parameters (name -> type), class of the body, and type of the answer.

    Without a body `body` is None. With `loose_body` the handler checks the fields, and nulls are refused.
    `answer` is None for an answer without content.
    """

    path: tuple[str, ...]
    query: dict[str, Any] = attrs.field(hash=False)
    body: Any
    loose_body: bool
    answer: Any
    status: int


def _status(handler: Any) -> int:
    method = min(handler.http_methods)  # a route has one method; only static files have GET and HEAD
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
    """Return a handler's signature.

    For a body whose fields the handler checks (`JsonObject`), the route's `body` has them.
    """
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


@cache
def columns_of(handler: Any) -> list[str] | None:
    """Return the columns of a list as a file; None for another answer than a list of objects.

    The fields of an object in a field have its name before theirs, such as `mitra.display_name`.
    """
    item = _item_of(signature_of(handler).answer)
    return None if item is None else list(_columns(item))


def _item_of(answer: Any) -> Any:
    """Return the class of the `items` of an answer; None if it has none."""
    kind = get_origin(answer) or answer
    if not attrs.has(kind) or "items" not in attrs.fields_dict(kind):
        return None
    (item,) = get_args(get_type_hints(kind)["items"])
    item = get_args(answer)[0] if isinstance(item, TypeVar) else item
    return item if attrs.has(item) else None


def _columns(kind: Any) -> Iterator[str]:
    hints = get_type_hints(kind)
    for field in attrs.fields(kind):
        inner = [one for one in (hints[field.name], *get_args(hints[field.name])) if attrs.has(one)]
        is_object = len(inner) == 1 and get_origin(hints[field.name]) not in {list, dict}
        yield from (f"{field.name}.{name}" for name in _columns(inner[0])) if is_object else (field.name,)
