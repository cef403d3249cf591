"""Routes for each listener's OpenAPI document, and a Swagger UI page that loads nothing from other origins. The public
listener also has the page of the frames of sockets (tools/pages/sockets_page.py).

The files of Swagger UI come from the package `swagger-ui-py` of the extra `laptop`, without which there are only the
documents; none of its Python code runs.
"""

import importlib.util
import pathlib
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from litestar import Response, get

from api.auth import INTERNAL, PUBLIC, anyone
from api.static_files import WEB
from core.base.errors import NotFound

# Only this origin's own files are allowed. Swagger UI needs style attributes and icons in data URLs.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sesi: interface</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" href="/docs/favicon-32x32.png">
<div id="page"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</html>
"""
START = """SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#page",
  deepLinking: true,
  displayRequestDuration: true,
  persistAuthorization: false,
  validatorUrl: null,
});
"""
FILES = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
SOCKETS_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
CACHED = {"Cache-Control": "public, max-age=3600", "Content-Security-Policy": POLICY}


@cache
def _file(name: str) -> bytes:
    package = importlib.util.find_spec("swagger_ui")
    assert package is not None
    assert package.submodule_search_locations is not None
    return (pathlib.Path(package.submodule_search_locations[0]) / "static" / name).read_bytes()


@cache
def _sockets() -> bytes:
    return (WEB / "documents/sockets.html").read_bytes()


def routes(*, listener: str, document: Callable[[], dict[str, Any]]) -> list[Any]:
    """Return the routes of a listener's document and page. `document` is called at the first request."""
    written: list[bytes] = []
    access: Any = anyone(listeners=PUBLIC if listener == "public" else INTERNAL)

    @get("/openapi.json", include_in_schema=False, **access)
    async def interface() -> Response[bytes]:
        """Return the OpenAPI document of this listener."""
        if not written:
            written.append(msgspec.json.encode(document()))
        return Response(written[0], media_type="application/json")

    @get("/docs", include_in_schema=False, **access)
    async def page() -> Response[str]:
        """Return the Swagger UI page."""
        return Response(PAGE, media_type="text/html", headers={"Content-Security-Policy": POLICY})

    @get("/docs/{name:str}", include_in_schema=False, **access)
    async def file(name: str) -> Response[bytes]:
        """Return a file of the page."""
        if name == "start.js":
            return Response(START.encode(), media_type="text/javascript; charset=utf-8", headers=CACHED)
        if name not in FILES:
            raise NotFound
        return Response(_file(name), media_type=FILES[name], headers=CACHED)

    @get("/docs/sockets", include_in_schema=False, **access)
    async def sockets() -> Response[bytes]:
        """Return the page of the frames of sockets."""
        return Response(_sockets(), media_type="text/html", headers={"Content-Security-Policy": SOCKETS_POLICY})

    pages = [page, file] if importlib.util.find_spec("swagger_ui") else []
    return [interface, *pages, *([sockets] if listener == "public" else [])]
