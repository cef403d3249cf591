"""The client library as a package: its types, its size, what it may import, and that releases never change."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

from tools.pages import client_package
from tools.pages.client_package import FOLDER, ROOT, TYPES

pytestmark = pytest.mark.usefixtures("tsc")  # makes the types
# By entry. Until pages say that they are hidden, and repeats of messages end, 14 KiB were enough for browsers.
MAX_BYTES = {"index.js": 14_848, "react_native.js": 14_336}
# What an app's compiler has besides the options of tsconfig.json; those of React Native's apps name its condition.
APPS: dict[str, dict[str, object]] = {
    "consumer.ts": {},
    "consumer.native.ts": {"module": "esnext", "moduleResolution": "bundler", "customConditions": ["react-native"]},
}
IMPORT = re.compile(r'(?:^(?:import|export)\b[^;()]*?\bfrom |^import |[^{ ]import\()"([^"]+)"', re.M)


def compiled(node: str, tsc: str, project: str) -> str:
    """Return what the compiler says about a project; empty if it passes."""
    done = subprocess.run([node, tsc, "-p", project], capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout if done.returncode else ""


def test_modules_pass_the_strict_type_check(node: str, tsc: str) -> None:
    options = json.loads((ROOT / "tsconfig.json").read_text())["compilerOptions"]
    assert all(options[name] for name in ("strict", "noUncheckedIndexedAccess", "exactOptionalPropertyTypes"))
    assert compiled(node, tsc, "tsconfig.json") == ""


def test_apps_use_the_library_as_its_types_say(node: str, tsc: str) -> None:
    """The apps have few annotations, so this check is not strict: it finds wrong calls, names and fields."""
    assert compiled(node, tsc, "tsconfig.apps.json") == ""


def test_app_passes_the_type_check_and_its_mistakes_are_found(node: str, tsc: str, tmp_path: pathlib.Path) -> None:
    assert compiled(node, tsc, "tests/client") == ""
    source = (ROOT / "tests/client/consumer.ts").read_text()
    mistakes = source.count("// @ts-expect-error")
    assert mistakes >= 10
    (tmp_path / "consumer.ts").write_text(source.replace("// @ts-expect-error", "//"))
    (tmp_path / "tsconfig.json").write_text(
        json.dumps(
            {
                "extends": str(ROOT / "tsconfig.json"),
                "compilerOptions": {"paths": {"sesi-client": [str(TYPES / "index.d.ts")]}},
                "include": ["*.ts"],
            }
        )
    )
    assert compiled(node, tsc, str(tmp_path)).count("error TS") == mistakes


def test_package_has_its_license_and_the_files_that_its_readme_links_to(package: pathlib.Path) -> None:
    assert (package / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", (package / "README.md").read_text()):
        assert (package / target).is_file(), target


@pytest.mark.parametrize(("app", "more"), APPS.items())
def test_types_of_the_package_need_no_modules(
    app: str, more: dict[str, object], node: str, tsc: str, package: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    shutil.copytree(package, tmp_path / "node_modules" / "sesi-client")
    (tmp_path / "app.ts").write_text((ROOT / "tests/client" / app).read_text())
    options = json.loads((ROOT / "tsconfig.json").read_text())["compilerOptions"]
    options |= {"allowJs": False, "checkJs": False, **more}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.ts"]}))
    assert options["skipLibCheck"] is False
    assert compiled(node, tsc, str(tmp_path)) == ""


@pytest.mark.parametrize("entry", MAX_BYTES)
def test_modules_of_an_entry_fit_its_size_budget(entry: str) -> None:
    assert client_package.compressed_size(entry) <= MAX_BYTES[entry]


def test_each_module_belongs_to_an_entry() -> None:
    reached = {path for entry in MAX_BYTES for path in client_package.reached(entry)}
    assert reached == set(client_package.modules())


def test_modules_import_only_each_other_and_are_packaged() -> None:
    package = json.loads((FOLDER / "package.json").read_text())
    for path in client_package.modules():
        for target in IMPORT.findall(path.read_text()):
            if path.name == "react_native.js" and target in package["peerDependencies"]:
                continue
            assert re.fullmatch(r"\./\w+\.(?:js|d\.ts)", target), f"{path.name} imports {target}"
            assert (FOLDER / target).exists()
    packed = {path for pattern in package["files"] for path in FOLDER.glob(pattern)}
    types = set(FOLDER.glob("*.d.ts"))
    assert {path for path in FOLDER.iterdir() if path.name != "package.json"} - types <= packed
    assert {path.name for path in types} <= {path.name for path in TYPES.iterdir()}


def test_released_versions_are_unchanged() -> None:
    known = client_package.released()
    assert known.get(client_package.version(), client_package.digest()) == client_package.digest(), (
        "this version is released: raise it in api/web/client/package.json"
    )


def test_changed_release_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_package, "RELEASES", tmp_path / "releases.json")
    (tmp_path / "releases.json").write_text("{}")
    client_package.release()
    client_package.release()
    assert client_package.released() == {client_package.version(): client_package.digest()}
    (tmp_path / "releases.json").write_text(json.dumps({client_package.version(): "another"}))
    with pytest.raises(ValueError, match="raise the version"):
        client_package.release()
