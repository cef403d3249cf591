"""The modules of the client library for any web page.

The newest modules are at `/client/index.js`. Those at `/client/v<version>/index.js` never change.
"""

from functools import cache
from typing import Any

import msgspec
from litestar import Request, Response, route

from api.auth import anyone
from api.static_files import READING, REVALIDATE, WEB, StaticFolder, answer
from core.base.errors import NotFound

FILES = StaticFolder(WEB / "client")
# Pages of every origin may import the modules, which are the same for all and need no credentials.
HEADERS = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}
FOREVER = "public, max-age=31536000, immutable"


@cache
def _version() -> str:
    return msgspec.json.decode((FILES.path / "package.json").read_bytes())["version"]


@route("/client/{file:path}", http_method=READING, include_in_schema=False, **anyone(NotFound))
async def module(file: str, request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return a file of the library. With another version than the present one in its path, there is none."""
    first, _, rest = file.lstrip("/").partition("/")
    if rest and first == f"v{_version()}":
        return answer(request, FILES, rest, headers={**HEADERS, "Cache-Control": FOREVER})
    return answer(request, FILES, file.lstrip("/"), headers={**HEADERS, "Cache-Control": REVALIDATE})


ROUTES = [module]
