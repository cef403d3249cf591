"""The packed library in the bundlers that apps use, and in the compiler of React Native's engine."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from playwright.async_api import Page, Request, Route, async_playwright

from tests.pages.browser import ARGUMENTS, SKIPPED, chromium
from tools.pages.client_package import FOLDER

BUNDLE = pathlib.Path(__file__).with_name("bundlers") / "bundle.mjs"
BEATS = 3
# A mitra's app. They go online, and no socket opens, so that heartbeats are requests.
MITRA = """
import { createClient, memoryStorage } from "sesi-client";

async function start() {
  const storage = memoryStorage();
  await storage.set("tokens", JSON.stringify({ access: "A", refresh: "R", user: { id: "1" } }));
  const client = createClient({ role: "mitra", api: "http://api.test", sockets: "ws://127.0.0.1:9", storage });
  await client.start();
  await client.goOnline();
}
start();
"""
STATUS = {"is_online": True, "heartbeat_cadence_seconds": 0.05, "active_session_count": 0, "max_sessions": 3}
# What the example of the README imports besides the library. Its functions run in native.test.mjs.
NATIVE_MODULES = {
    "react": "export const useSyncExternalStore = (subscribe, look) => look();",
    "react-native": "export const AppState = {}; export const FlatList = () => null; export const Text = () => null;",
    "react/jsx-runtime": "export const jsx = () => null; export const jsxs = jsx;",
    "expo-crypto": "export const getRandomValues = () => {};",
    "expo-secure-store": "export const getItemAsync = async () => null;",
    "@react-native-async-storage/async-storage": "export default {};",
    "@react-native-community/netinfo": "export default {};",
}


def app_of(folder: pathlib.Path, package: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    """Write an app that has the package and these files."""
    shutil.copytree(package, folder / "node_modules" / "sesi-client")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def bundle(node: str, name: str, bundlers: pathlib.Path, app: pathlib.Path) -> pathlib.Path:
    """Bundle an app; return the bundle, which must be one file that needs no other."""
    (app / "out").mkdir()
    done = subprocess.run(
        [node, str(BUNDLE), name, str(bundlers), str(app)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = (app / "out").iterdir()
    assert "import.meta" not in made.read_text()
    return made


async def worker_of_heartbeats(page: Page, script: str) -> str:
    """Open a page with a script; return the address of its worker once some heartbeats have come."""
    beats: list[Request] = []

    async def answer(route: Route, request: Request) -> None:
        if request.url.endswith("/heartbeat") and request.method == "POST":
            beats.append(request)
        await route.fulfill(
            status=200 if request.method != "OPTIONS" else 204,
            headers={"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*"},
            json=STATUS,
        )

    await page.route("http://api.test/**", answer)
    await page.route(
        "http://page.test/",
        lambda route: route.fulfill(content_type="text/html", body="<!doctype html><title>App</title>"),
    )
    await page.goto("http://page.test/")
    async with page.expect_worker() as worker:
        await page.add_script_tag(content=script, type="module")
    address = (await worker.value).url
    while len(beats) < BEATS:
        await page.wait_for_event("request", lambda request: request.url.endswith("/heartbeat"))
    return address


@pytest.mark.anyio
@pytest.mark.skipif(chromium() is None, reason=SKIPPED)
@pytest.mark.parametrize("name", ["esbuild", "vite", "webpack"])
async def test_bundle_sends_heartbeats_by_its_worker(
    name: str, node: str, bundlers: pathlib.Path, package: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    made = bundle(node, name, bundlers, app_of(tmp_path, package, {"app.js": MITRA}))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        worker = await worker_of_heartbeats(await browser.new_page(), made.read_text())
        await browser.close()
    assert worker.startswith("blob:http://page.test/")


def test_metro_and_hermes_take_the_entry_of_react_native(
    node: str, bundlers: pathlib.Path, package: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The files of the README's example, as they are there."""
    text = (FOLDER / "README.md").read_text()
    example = {name: code for _, code, name in re.findall(r"```(jsx?)\n(// (\S+)\n.*?)```", text, re.S)}
    assert set(example) == {"sesi.js", "Chat.jsx"}
    stubs = {f"node_modules/{name}/index.js": code for name, code in NATIVE_MODULES.items() if name.count("/") < 2}
    app = app_of(tmp_path, package, {**example, **stubs, "app.js": 'import "./Chat.jsx";'})
    made = bundle(node, "metro", bundlers, app)
    bundled = made.read_text()
    assert "AppState" in bundled
    assert "indexedDB" not in bundled
    platform = {"linux": "linux64-bin", "darwin": "osx-bin"}[sys.platform]
    compiler = bundlers / "node_modules" / "hermes-compiler" / "hermesc" / platform / "hermesc"
    code = tmp_path / "app.hbc"
    done = subprocess.run(
        [str(compiler), "-O", "-emit-binary", "-out", str(code), str(made)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert code.stat().st_size > 10_000


def test_bundlers_have_exact_versions() -> None:
    declared = json.loads((BUNDLE.parent / "package.json").read_text())["devDependencies"]
    assert all(re.fullmatch(r"\d[\d.]+", version) for version in declared.values()), declared
