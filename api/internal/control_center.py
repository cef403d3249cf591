"""The control center's page and its static files, which call `/internal` like any other client
(docs/control-center.md).

The browser gets the files of two folders as they are, without a build step and without files of other origins: those of
the pages, and those that the apps of `/try` use too.
"""

import hashlib
import mimetypes
import pathlib
from functools import cache
from typing import Annotated

import attrs
from litestar import Response, get
from litestar.params import HeaderParameter
from litestar.response import Redirect

from api.auth import INTERNAL, anyone
from core.base.errors import NotFound

FOLDER = pathlib.Path(__file__).parent / "static"
SHARED = pathlib.Path(__file__).parents[1] / "static" / "shared"
# Only scripts and styles from this origin's files, none inline. Trusted types forbid to parse text as HTML.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # browsers cache the file, but revalidate it each time
}
ACCESS = anyone(listeners=INTERNAL)


@attrs.frozen
class File:
    """A static file with its headers."""

    content: bytes
    media_type: str
    tag: str


@cache
def files() -> dict[str, File]:
    """Return path below `/internal/static/` -> file. The folder shared with the apps is at `shared/`."""
    found = {}
    for prefix, folder in (("", FOLDER), ("shared/", SHARED)):
        for path in sorted(folder.rglob("*.*")):
            content = path.read_bytes()
            media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[prefix + path.relative_to(folder).as_posix()] = File(content, media_type, tag)
    return found


def _answer(name: str, known: str | None) -> Response[bytes]:
    file = files().get(name)
    if file is None:
        raise NotFound
    headers = HEADERS | {"ETag": file.tag}
    if known == file.tag:
        return Response(b"", status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


@get("/", include_in_schema=False, status_code=307, **ACCESS)
async def root() -> Redirect:
    """Send a browser to the control center."""
    return Redirect("/internal/", status_code=307)


@get("/internal", include_in_schema=False, **ACCESS)
async def page(known: Annotated[str | None, HeaderParameter(name="If-None-Match")] = None) -> Response[bytes]:
    """Return the page of the control center. The part of the address after `#` decides what it shows."""
    return _answer("index.html", known)


@get("/internal/static/{file:path}", include_in_schema=False, **ACCESS)
async def static(
    file: str, known: Annotated[str | None, HeaderParameter(name="If-None-Match")] = None
) -> Response[bytes]:
    """Return a file of the page."""
    return _answer(file.lstrip("/"), known)


ROUTES = [root, page, static]
