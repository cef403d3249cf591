"""Answer a list as a CSV file: the pages of the route itself, read one after the other (docs/protocol.md#files).

A file has the rights, filters and masks of its list, because it is made of the list's own answers. Every list is a file
as well: a route whose answer has `items`.
"""

import asyncio
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

import attrs
import msgspec
from litestar import Litestar
from litestar.exceptions import HTTPException
from litestar.utils import normalize_path

from api.edge.asgi import App, Receive, Scope, Send, headers_of
from api.edge.plain_answers import refuse
from api.route_signatures import columns_of, signature_of
from core.base.actor import Actor
from core.base.errors import DomainError, Unavailable
from core.desk import disclosure, list_files
from core.desk.list_files import ListFile
from core.runtime.container import Runtime

CSV, JSON = "text/csv", "application/json"
PAGE = 200  # rows that are read at a time: the most that a list has
LONGEST_S = 240.0  # real seconds to make a file
FROM_ROUTING = ("path_template", "route_handler", "actor")  # keys of a scope that say what was answered


def wants_file(accept: str) -> bool:
    """Return whether the header `Accept` names CSV, and not JSON as well."""
    named = {one.partition(";")[0].strip().lower() for one in accept.split(",")}
    return CSV in named and JSON not in named


@attrs.frozen(kw_only=True)
class ListAnswer:
    """What the route answered for a page: the messages, and the scope that they were made for."""

    scope: Scope
    messages: list[MutableMapping[str, Any]]

    @property
    def is_good(self) -> bool:
        """Return whether it has items."""
        return self.messages[0]["status"] == 200

    def read(self) -> Any:
        """Return its JSON."""
        return msgspec.json.decode(b"".join(message.get("body", b"") for message in self.messages))


class ListFiles:
    """An ASGI application that answers lists as files if the client asks for CSV, and passes on all other requests."""

    def __init__(self, app: Litestar, inner: App, runtime: Runtime) -> None:
        self._find = app.asgi_router.handle_routing
        self._inner = inner
        self._runtime = runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        if scope["method"] == "GET" and wants_file(headers_of(scope).get("accept", "")):
            try:
                _, handler, *_ = self._find(path=normalize_path(scope["path"]), method="GET")
            except HTTPException:
                handler = None
            columns = columns_of(handler) if handler is not None and "access" in handler.opt else None
            if columns is not None:
                await self._answer(scope, send, columns, signature_of(handler).query)
                return
        await self._inner(scope, receive, send)

    async def _answer(self, scope: Scope, send: Send, columns: list[str], known: dict[str, Any]) -> None:
        """Read the first page, and answer with the file or with a refusal."""
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        query.pop("cursor", None)
        if "limit" in known:
            query["limit"] = str(PAGE)
        first = await self._page(scope, query)
        if not first.is_good:
            await _pass_on(scope, send, first)
            return
        actor: Actor = first.scope["actor"]
        scope.update({name: first.scope[name] for name in FROM_ROUTING})
        try:
            async with list_files.place(self._runtime, actor) as turns:
                file = ListFile(columns, with_contacts=disclosure.readable(actor))
                async with turns:
                    refused = await self._fill(file, scope, query, first)
                if refused is None:
                    await self._note(scope, query, file)
                    await _send(send, file, name=scope["path_template"].rstrip("/").rpartition("/")[2])
            if refused is None:
                # Only now, because a client that has the whole file may ask for the next one.
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await _pass_on(scope, send, refused)
        except DomainError as error:
            await refuse(scope, send, error)

    async def _fill(self, file: ListFile, scope: Scope, query: dict[str, str], page: ListAnswer) -> ListAnswer | None:
        """Add the first page and all others to a file. Return a refusal of the route, or None."""
        try:
            async with asyncio.timeout(LONGEST_S):
                while (cursor := _added(file, page.read())) is not None:
                    page = await self._page(scope, {**query, "cursor": cursor})
                    if not page.is_good:
                        return page
        except TimeoutError as error:
            raise Unavailable from error
        return None

    async def _note(self, scope: Scope, query: dict[str, str], file: ListFile) -> None:
        listing = scope["path"].strip("/").removeprefix("internal/")
        filters = {name: value for name, value in query.items() if name != "limit"}
        await list_files.note(self._runtime, scope["actor"], listing=listing, query=filters, rows=file.rows)

    async def _page(self, scope: Scope, query: dict[str, str]) -> ListAnswer:
        """Ask the route for a page, as JSON."""
        headers = [header for header in scope["headers"] if header[0] != b"accept"]
        asked = {
            **scope,
            "query_string": urlencode(query).encode(),
            "headers": [*headers, (b"accept", JSON.encode())],
            "state": dict(scope["state"]),  # the framework keeps the parsed query there
        }
        messages: list[MutableMapping[str, Any]] = []

        async def keep(message: MutableMapping[str, Any]) -> None:
            messages.append(message)

        await self._inner(asked, _no_body, keep)
        return ListAnswer(scope=asked, messages=messages)


async def _no_body() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


def _added(file: ListFile, answer: Any) -> str | None:
    """Add a page to the file; return the cursor of the next one, None after the last."""
    cursor = answer.get("next_cursor")
    file.add(answer["items"], more=cursor is not None)
    return cursor


async def _pass_on(scope: Scope, send: Send, page: ListAnswer) -> None:
    """Answer as the route did."""
    scope.update({name: page.scope[name] for name in FROM_ROUTING if name in page.scope})
    scope["state"].update(page.scope["state"])
    for message in page.messages:
        await send(message)


async def _send(send: Send, file: ListFile, *, name: str) -> None:
    """Send a file, but not its end."""
    headers = [
        (b"content-type", b"text/csv; charset=utf-8; header=present"),
        (b"content-disposition", f'attachment; filename="{name}.csv"'.encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for part in file.parts():
        await send({"type": "http.response.body", "body": part, "more_body": True})
