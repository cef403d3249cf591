"""Each listener's interface document, and a page to read and try it: everything on it is served from here.

Swagger UI's own files come out of the package `swagger-ui-py`; none of its Python is run.
"""

import importlib.util
import pathlib
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from litestar import Response, get

from api.auth import INTERNAL, PUBLIC, anyone
from core.base.errors import NotFound

# Nothing but this origin's own files; Swagger UI sets style attributes and shows its icons as data.
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
CACHED = {"Cache-Control": "public, max-age=3600", "Content-Security-Policy": POLICY}


@cache
def _file(name: str) -> bytes:
    package = importlib.util.find_spec("swagger_ui")
    assert package is not None
    assert package.submodule_search_locations is not None
    return (pathlib.Path(package.submodule_search_locations[0]) / "static" / name).read_bytes()


def routes(*, listener: str, document: Callable[[], dict[str, Any]]) -> list[Any]:
    """Return the routes that show a listener's document, which is written when it is first asked for."""
    written: list[bytes] = []
    access: Any = anyone(listeners=PUBLIC if listener == "public" else INTERNAL)

    @get("/openapi.json", include_in_schema=False, **access)
    async def interface() -> Response[bytes]:
        """The OpenAPI document of this listener."""
        if not written:
            written.append(msgspec.json.encode(document()))
        return Response(written[0], media_type="application/json")

    @get("/docs", include_in_schema=False, **access)
    async def page() -> Response[str]:
        """The page."""
        return Response(PAGE, media_type="text/html", headers={"Content-Security-Policy": POLICY})

    @get("/docs/{name:str}", include_in_schema=False, **access)
    async def file(name: str) -> Response[bytes]:
        """A file of the page."""
        if name == "start.js":
            return Response(START.encode(), media_type="text/javascript; charset=utf-8", headers=CACHED)
        if name not in FILES:
            raise NotFound
        return Response(_file(name), media_type=FILES[name], headers=CACHED)

    return [interface, page, file]
