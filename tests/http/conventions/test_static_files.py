"""The static files of the public listener: types, caching, policies, and their absence in production."""

import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from yarl import URL

from api.public import client_library, try_apps
from api.static_files import TYPES, StaticFolder
from tests.access.wire import ask
from tests.stack import CALLBACK_TOKEN, Stack
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio

OUTSIDE = (
    "../client_library.py",
    "%2e%2e/client_library.py",
    "..%2f..%2fclient_library.py",
    "/etc/passwd",
    "none.js",
    "",
)
VERSION = json.loads((client_library.FILES.path / "package.json").read_text())["version"]
ORIGIN = {"Origin": "https://app.example.test"}


@pytest.fixture(scope="module")
def production(stack: Stack) -> Iterator[str]:
    """Yield the base URL of the public listener of an api process in production."""
    public, internal = free_port(), free_port()
    stack.start(
        "api", key="production", PUBLIC_PORT=str(public), INTERNAL_PORT=str(internal), ENVIRONMENT="production",
        PASSWORD_ROUNDS="10", REFUNDS_ENABLED="false", GATEWAY_ENABLED="false", PUSH_SENDER="log", GATEWAY_CALLBACK_TOKEN=CALLBACK_TOKEN, PUBLIC_CORS_ORIGINS="https://other.example.test",
    )  # fmt: skip
    stack.wait_ready("api", port=internal, key="production")
    yield f"http://127.0.0.1:{public}"
    assert stack.stop("production") == 0
    del stack.processes["production"]


async def raw(http: aiohttp.ClientSession, base: str, path: str, **more: Any) -> tuple[int, Any, bytes]:
    """Send a GET whose path is not normalised; return status, headers and content."""
    async with http.get(URL(base + path, encoded=True), allow_redirects=False, **more) as answer:
        return answer.status, answer.headers, await answer.read()


@pytest.mark.parametrize(("prefix", "folder"), [("/client/", client_library.FILES), ("/try/", try_apps.FILES)])
async def test_every_file_is_served_with_its_type_and_nothing_outside_the_folder(
    stack: Stack, http: aiohttp.ClientSession, prefix: str, folder: StaticFolder
) -> None:
    assert folder.paths()
    for name, path in folder.paths().items():
        status, headers, content = await raw(http, stack.addresses.public, prefix + name)
        assert (status, content) == (200, path.read_bytes()), name
        assert headers["Content-Type"].removesuffix("; charset=utf-8") == TYPES[path.suffix]
    for name in OUTSIDE:
        if prefix == "/try/" and not name:
            continue  # the page of the folder
        answer = await ask(http, stack.addresses.public + prefix + name)
        assert answer.said == (404, "NOT_FOUND"), name


async def test_head_has_the_headers_of_get_and_no_content(stack: Stack, http: aiohttp.ClientSession) -> None:
    url = f"{stack.addresses.public}/client/package.json"
    got, head = await ask(http, url), await ask(http, url, "HEAD")
    assert (head.status, head.raw) == (200, b"")
    for name in ("ETag", "Content-Type", "Content-Length", "Cache-Control"):
        assert head.headers[name] == got.headers[name]


@pytest.mark.parametrize("known", ["{tag}", "W/{tag}", '"other", {tag}', "*"])
async def test_unchanged_file_is_304_without_content(stack: Stack, http: aiohttp.ClientSession, known: str) -> None:
    base, path = stack.addresses.public, "/client/package.json"
    _, headers, _ = await raw(http, base, path)
    status, again, content = await raw(http, base, path, headers={"If-None-Match": known.format(tag=headers["ETag"])})
    assert (status, again["ETag"], content) == (304, headers["ETag"], b"")
    status, _, content = await raw(http, base, path, headers={"If-None-Match": '"other"'})
    assert (status, content != b"") == (200, True)


async def test_library_of_the_present_version_is_cached_for_a_year_and_others_are_404(
    production: str, http: aiohttp.ClientSession
) -> None:
    for base, caching in (("/client", "no-cache"), (f"/client/v{VERSION}", "public, max-age=31536000, immutable")):
        status, headers, content = await raw(http, production, f"{base}/package.json", headers=ORIGIN)
        assert (status, content) == (200, (client_library.FILES.path / "package.json").read_bytes())
        assert headers["Cache-Control"] == caching
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert headers["Cross-Origin-Resource-Policy"] == "cross-origin"
        assert "Access-Control-Allow-Credentials" not in headers
    for version in ("v0.0.1", "v", VERSION, f"v{VERSION}/v{VERSION}"):
        assert (await ask(http, f"{production}/client/{version}/package.json")).said == (404, "NOT_FOUND")


async def test_pages_for_development_are_404_in_production(production: str, http: aiohttp.ClientSession) -> None:
    paths = (
        "/try",
        "/try/",
        "/try/customer/",
        "/try/mitra/",
        "/try/config.json",
        *(f"/try/{n}" for n in try_apps.FILES.paths()),
    )
    for path in (*paths, "/dev", "/dev/inbox", "/dev/inbox.json", "/dev/pay/1"):
        assert (await ask(http, production + path)).said == (404, "NOT_FOUND"), path


async def test_apps_may_be_framed_by_this_origin_and_reach_the_sockets(
    stack: Stack, http: aiohttp.ClientSession
) -> None:
    status, headers, _ = await raw(http, stack.addresses.public, "/try/icon.svg")
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert status == 200
    assert headers["X-Frame-Options"] == "SAMEORIGIN"
    assert policy["frame-ancestors"] == "'self'"
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == f"'self' {stack.addresses.realtime}"
    assert "unsafe" not in headers["Content-Security-Policy"]
    for odd in ("evil;script-src", "evil,*", "[::1]:8000"):
        status, headers, content = await raw(http, stack.addresses.public, "/try/icon.svg", headers={"Host": odd})
        assert status == 200, (odd, content)
        assert f"ws://127.0.0.1:{stack.ports['REALTIME']};" in headers["Content-Security-Policy"]
        assert "evil" not in headers["Content-Security-Policy"]


async def test_configuration_of_the_apps_names_the_addresses_by_the_host_of_the_request(
    stack: Stack, http: aiohttp.ClientSession
) -> None:
    port = stack.ports
    _, _, content = await raw(
        http, stack.addresses.public, "/try/config.json", headers={"Host": f"phone.test:{port['PUBLIC']}"}
    )
    assert json.loads(content) == {
        "api": f"http://phone.test:{port['PUBLIC']}",
        "sockets": f"ws://phone.test:{port['REALTIME']}",
        "control_center": f"http://phone.test:{port['INTERNAL']}/internal/",
        "time_scale": 1.0,
        "mitras": [],
    }


async def test_file_is_read_again_in_development_and_once_in_production(tmp_path: Any) -> None:
    (tmp_path / "a.js").write_text("1")
    folder = StaticFolder(tmp_path)
    assert folder.find("a.js", fresh=False) == folder.find("a.js", fresh=True)
    (tmp_path / "a.js").write_text("2")
    fresh, kept = folder.find("a.js", fresh=True), folder.find("a.js", fresh=False)
    assert (fresh and fresh.content, kept and kept.content) == (b"2", b"1")


async def test_added_removed_and_returned_files_show_in_development(tmp_path: Any) -> None:
    folder = StaticFolder(tmp_path)
    assert folder.find("a.js", fresh=True) is None
    (tmp_path / "a.js").write_text("1")
    found = folder.find("a.js", fresh=True)
    assert found is not None
    (tmp_path / "a.js").unlink()
    assert folder.find("a.js", fresh=True) is None
    (tmp_path / "a.js").write_text("1")
    assert folder.find("a.js", fresh=True) == found
