"""The apps for trying the service out, at `/try/`, and where they find it. They do not exist in production."""

import re
from typing import Any

import attrs
from litestar import Request, Response, get, route
from litestar.response import Redirect

from api.auth import anyone
from api.static_files import READING, REVALIDATE, WEB, StaticFolder, answer
from core.base.errors import NotFound, Unavailable
from core.desk import trial
from core.runtime.container import Runtime
from core.settings.settings import Settings

FILES = StaticFolder(WEB / "apps", shared=True)
INDEX = "index.html"
# Only names and IPv4 addresses: the host is written into a header, and policies know no IPv6 addresses.
HOST = re.compile(r"([A-Za-z0-9.-]{1,253})(:[0-9]{1,5})?")
# Only this origin's files, none inline, and the sockets. Trusted types forbid to parse text as HTML; the policy
# `sesi-worker` makes the address of the worker that sends heartbeats.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; manifest-src 'self'; worker-src blob:;"
    " connect-src 'self' {sockets}; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self';"
    " require-trusted-types-for 'script'; trusted-types sesi-worker"
)
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin-allow-popups",  # the pages to pay and to sign in report to their opener
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "SAMEORIGIN",  # /try/ shows several apps in frames
    "Cache-Control": REVALIDATE,
}


@attrs.frozen(kw_only=True)
class TrialConfig:
    """Where a browser reaches the service, its speed, and the mitras that a visitor may sign in as."""

    api: str
    sockets: str
    control_center: str
    time_scale: float
    mitras: list[trial.TrialMitra]


def _host(request: Request[Any, Any, Any], settings: Settings) -> tuple[str, str]:
    """Return the host by which the browser reached the public listener, and the same with the port."""
    found = HOST.fullmatch(request.headers.get("host", ""))
    return (found[1], found[0]) if found else ("127.0.0.1", f"127.0.0.1:{settings.public_port}")


def sockets_url(request: Request[Any, Any, Any], settings: Settings) -> str:
    """Return the base URL of the sockets as the browser reaches them."""
    scheme = "wss" if request.scope["scheme"] == "https" else "ws"
    return f"{scheme}://{_host(request, settings)[0]}:{settings.realtime_port}"


def headers_of(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Return the headers of the apps' files, whose policy allows the sockets' origin."""
    runtime: Runtime = request.app.state.runtime
    return {**HEADERS, "Content-Security-Policy": POLICY.format(sockets=sockets_url(request, runtime.settings))}


@get("/try/config.json", include_in_schema=False, **anyone(Unavailable))
async def trial_config(request: Request[Any, Any, Any], runtime: Runtime) -> TrialConfig:
    """Return where the apps find the service."""
    settings = runtime.settings
    name, host = _host(request, settings)
    return TrialConfig(
        api=f"{request.scope['scheme']}://{host}",
        sockets=sockets_url(request, settings),
        control_center=f"http://{name}:{settings.internal_port}/internal/",
        time_scale=settings.sesi_time_scale,
        mitras=await trial.mitras(runtime),
    )


@route(["/try", "/try/{file:path}"], http_method=READING, include_in_schema=False, **anyone(NotFound))
async def page_or_file(request: Request[Any, Any, Any], file: str = "") -> Response[bytes] | Redirect:
    """Return a file of the apps, or the page of a folder. The address of a page ends with a slash."""
    name = file.strip("/")
    if f"{name}/{INDEX}".lstrip("/") not in FILES.paths():
        return answer(request, FILES, name, headers=headers_of(request))
    if not request.scope["raw_path"].endswith(b"/"):
        query = f"?{request.url.query}" if request.url.query else ""
        return Redirect(f"/try/{name}/{query}".replace("//", "/"), status_code=307)
    return answer(request, FILES, f"{name}/{INDEX}".lstrip("/"), headers=headers_of(request))


ROUTES = [trial_config, page_or_file]
