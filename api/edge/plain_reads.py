"""Answer plain GET routes without the framework's layers, which cost more than such a route's own work.

A route is plain if its handler takes the runtime, the actor, the request and parts of the path, and returns a value
that becomes JSON. The framework still finds the route. All other requests are passed on to it.
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.routes import HTTPRoute
from litestar.serialization import default_serializer
from litestar.utils import normalize_path

from api import errors
from api.edge.asgi import Receive, Scope, Send
from api.route_checks import admit

# Other hosts are valid too; the framework decides about them.
USUAL_HOST = re.compile(rb"[0-9A-Za-z.:-]*")
encode = msgspec.json.Encoder(enc_hook=default_serializer).encode


class PlainReads:
    """An ASGI application that answers the plain GET routes of a Litestar application, and passes on all others."""

    def __init__(self, app: Litestar) -> None:
        self._app: Any = app
        self._find = app.asgi_router.handle_routing
        self._arguments = {handler: names for route in app.routes for handler, names in _plain_handlers(route)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        handler = self._handler_of(scope)
        if handler is None:
            await self._app(scope, receive, send)
            return
        scope["app"] = scope["litestar_app"] = self._app
        request: Request[Any, Any, Any] = Request(scope, receive, send)  # type: ignore[arg-type]
        try:
            content = await self._content(handler, request)
        except Exception as error:
            response = errors.answer(request, error).to_asgi_response(app=None, request=request)
            await response(scope, receive, send)  # type: ignore[arg-type]
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content, "more_body": False})

    def _handler_of(self, scope: Scope) -> Any:
        """Return the plain handler of a request and note its route in the scope, or return None."""
        if scope["method"] != "GET" or scope.get("root_path"):
            return None
        for name, value in scope["headers"]:
            if name == b"origin" or (name == b"host" and USUAL_HOST.fullmatch(value) is None):
                return None
        try:
            _, handler, path, path_params, template = self._find(path=normalize_path(scope["path"]), method="GET")
        except HTTPException:
            return None
        if handler not in self._arguments:
            return None
        scope["path"], scope["path_params"] = path, path_params
        scope["route_handler"], scope["path_template"] = handler, template
        return handler

    async def _content(self, handler: Any, request: Request[Any, Any, Any]) -> bytes:
        """Check the caller, call the handler and return its answer as JSON."""
        await admit(request)
        arguments: dict[str, Any] = dict(request.scope["path_params"])
        for name in self._arguments[handler]:
            match name:
                case "runtime":
                    arguments[name] = request.app.state.runtime
                case "actor":
                    arguments[name] = request.scope["actor"]  # type: ignore[typeddict-item]
                case _:
                    arguments[name] = request
        return encode(await handler.fn(**arguments))


def _plain_handlers(route: Any) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the plain handlers of a route, each with its arguments other than parts of the path."""
    if not isinstance(route, HTTPRoute) or any(part.type is not str for part in route.path_parameters.values()):
        return
    for handler in route.route_handlers:
        signature = inspect.signature(handler.fn)
        names = tuple(name for name in signature.parameters if name not in route.path_parameters)
        if "access" in handler.opt and handler.http_methods == {"GET"} and _is_plain(handler, signature, names):
            yield handler, names


def _is_plain(handler: Any, signature: inspect.Signature, names: tuple[str, ...]) -> bool:
    returned = signature.return_annotation
    return (
        set(names) <= {"runtime", "actor", "request"}
        and inspect.iscoroutinefunction(handler.fn)
        and handler.status_code == 200
        and handler.media_type == "application/json"
        and handler.resolve_before_request() is admit
        and not (inspect.isclass(returned) and issubclass(returned, Response))
        and not any(
            (
                handler.background,
                handler.cache,
                handler.after_request,
                handler.resolve_after_response(),
                handler.resolve_guards(),
                handler.resolve_middleware(),
                handler.resolve_response_cookies(),
                handler.resolve_response_headers(),
                handler.resolve_return_dto(),
            )
        )
    )
