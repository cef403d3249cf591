"""The control center's page and its static files, which call `/internal` like any other client
(docs/control-center.md).

The browser gets the files of two folders as they are, without a build step and without files of other origins: those of
the pages, and those that the apps of `/try` use too.
"""

from typing import Any

from litestar import Request, Response, get, route
from litestar.response import Redirect

from api.auth import INTERNAL, anyone
from api.static_files import READING, REVALIDATE, WEB, StaticFolder, answer

FOLDER = WEB / "center"
FILES = StaticFolder(FOLDER, shared=True)
# Only scripts and styles from this origin's files, none inline. Trusted types forbid to parse text as HTML.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": REVALIDATE,
}
ACCESS = anyone(listeners=INTERNAL)


@get("/", include_in_schema=False, status_code=307, **ACCESS)
async def root() -> Redirect:
    """Send a browser to the control center."""
    return Redirect("/internal/", status_code=307)


@route("/internal", http_method=READING, include_in_schema=False, **ACCESS)
async def page(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return the page of the control center. The part of the address after `#` decides what it shows."""
    return answer(request, FILES, "index.html", headers=HEADERS)


@route("/internal/static/{file:path}", http_method=READING, include_in_schema=False, **ACCESS)
async def static(file: str, request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return a file of the page."""
    return answer(request, FILES, file.lstrip("/"), headers=HEADERS)


ROUTES = [root, page, static]
