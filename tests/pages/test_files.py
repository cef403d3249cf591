"""The files of the control center: their types, their policy, and that they load nothing from other hosts."""

import pathlib
import re
import urllib.parse
from typing import Any

import aiohttp
import pytest

from api.internal.control_center import FOLDER, POLICY
from api.static_files import SHARED
from tests.stack import World

pytestmark = pytest.mark.anyio

ADDRESS = "/internal/static/"
# Address -> file, for each file that a browser can get.
FILES = {
    prefix + path.relative_to(folder).as_posix(): path
    for prefix, folder in ((ADDRESS, FOLDER), (f"{ADDRESS}shared/", SHARED))
    for path in sorted(folder.rglob("*.*"))
}
SOURCES = {address: path for address, path in FILES.items() if path.suffix in {".js", ".css", ".html"}}
PLACE = re.compile(r"""(?:from|import)\s+"([^"]+)"|(?:src|href)[=:]\s*"([^"#]+)\"""")


async def ask(world: World, path: str, **more: Any) -> tuple[int, Any, bytes]:
    url = world.stack.addresses.internal + path
    async with world.client()._http.get(url, allow_redirects=False, **more) as answer:
        return answer.status, answer.headers, await answer.read()


async def test_every_file_has_its_content_type_and_the_strict_policy(world: World) -> None:
    for address, path in FILES.items():
        status, headers, content = await ask(world, address)
        assert status == 200
        assert content == path.read_bytes()
        expected = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
        assert headers["Content-Type"].split(";")[0] == expected[path.suffix]
        assert headers["Content-Security-Policy"] == POLICY
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert "unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self';")


async def test_root_redirects_to_the_page_and_unchanged_files_are_304(world: World) -> None:
    status, headers, _ = await ask(world, "/")
    assert (status, headers["Location"]) == (307, "/internal/")
    for path in ("/internal/", "/internal"):
        status, headers, content = await ask(world, path)
        assert (status, content) == (200, (FOLDER / "index.html").read_bytes())
    known = {"If-None-Match": headers["ETag"]}
    status, again, content = await ask(world, "/internal/", headers=known)
    assert (status, content, again["ETag"]) == (304, b"", headers["ETag"])
    status, _, content = await ask(world, "/internal/", headers={"If-None-Match": '"older"'})
    assert status == 200
    assert content


async def test_paths_outside_the_folder_are_404(world: World) -> None:
    for name in (
        "../control_center.py",
        "shared/../../control_center.py",
        "shared/",
        "%2e%2e/control_center.py",
        "..%2fcontrol_center.py",
        "/etc/passwd",
        "none.js",
        "",
    ):
        async with aiohttp.ClientSession() as http:
            url = aiohttp.client.URL(f"{world.stack.addresses.internal}/internal/static/{name}", encoded=True)
            async with http.get(url) as answer:
                assert answer.status == 404, name


def test_files_load_nothing_from_other_hosts_and_every_import_exists() -> None:
    for address, path in SOURCES.items():
        text = path.read_text()
        elsewhere = [
            found for found in re.findall(r"https?://[^\s\"'`)]+", text) if found != "http://www.w3.org/2000/svg"
        ]
        assert elsewhere == [], path
        for found in PLACE.finditer(text):
            place = found[1] or found[2]
            if "${" in place:
                continue
            assert urllib.parse.urljoin(address, place) in FILES, (path, place)


def test_scripts_never_write_html_or_inline_styles() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.cssText|\"style\""
    )
    found = [(path.name, match[0]) for path in SOURCES.values() for match in forbidden.finditer(path.read_text())]
    assert found == []
    page = (FOLDER / "index.html").read_text()
    assert re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|\son[a-z]+=", page) is None


def test_files_stay_below_a_readable_length() -> None:
    # The dictionary has a line for each text of all pages.
    ours = [path for path in SOURCES.values() if path.parent.name != "vendor" and path.name != "words.id.js"]
    assert [path.name for path in ours if len(path.read_text().splitlines()) > 620] == []
    assert pathlib.Path("api/web/center/app.js").exists()
