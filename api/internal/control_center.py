"""The control center's pages: static files that call `/internal` like any other client (contract 8; specification, Internal listener).

No build step, nothing from elsewhere: what lies in `static` is what the browser gets.
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
# Scripts and styles of this origin's files only, none inside a page. Trusted types forbid what would read text as HTML.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # kept, and asked for each time whether it is still the same
}
ACCESS = anyone(listeners=INTERNAL)


@attrs.frozen
class File:
    """A file, as it is sent."""

    content: bytes
    media_type: str
    tag: str


@cache
def files() -> dict[str, File]:
    """Read every file of the pages, by its path below the folder."""
    found = {}
    for path in sorted(FOLDER.rglob("*.*")):
        content = path.read_bytes()
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        found[path.relative_to(FOLDER).as_posix()] = File(content, media_type, tag)
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
    """The one page; what it shows is decided by what stands behind the `#` of its address."""
    return _answer("index.html", known)


@get("/internal/static/{file:path}", include_in_schema=False, **ACCESS)
async def static(
    file: str, known: Annotated[str | None, HeaderParameter(name="If-None-Match")] = None
) -> Response[bytes]:
    """A file of the page."""
    return _answer(file.lstrip("/"), known)


ROUTES = [root, page, static]
