"""The Python client as a package: built, and used without anything of the service."""

import pathlib
import subprocess
import sys
import zipfile

from tools.pages.client_package import ROOT

FOLDER = ROOT / "tools" / "driving" / "sesi_client"
PROGRAM = """
import sesi_client, sys
from sesi_client import Client, FileStore, Refused
store = FileStore(sys.argv[1])
store.set("outbox", [{"frame": {}, "refusal": None}])
assert FileStore(sys.argv[1]).get("outbox") == [{"frame": {}, "refusal": None}]
ours = {name.split(".")[0] for name in sys.modules} & {"api", "core", "jobs", "realtime", "tools"}
assert not ours, ours
print(sesi_client.__file__)
"""


def test_wheel_has_license_and_types_and_runs_without_the_service(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "source"
    subprocess.run(["cp", "-rL", str(FOLDER), str(source)], check=True)  # the build writes into its folder
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(source)], check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("sesi_client-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        modules = {f"sesi_client/{path.name}" for path in FOLDER.glob("*.py")}
        assert {name for name in names if name.startswith("sesi_client/")} == modules | {"sesi_client/py.typed"}
        assert any(name.endswith("LICENSE") for name in names)
        opened.extractall(tmp_path / "site")
    run = [sys.executable, "-c", PROGRAM, str(tmp_path / "data")]
    environment = {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(run, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.stdout.strip() == str(tmp_path / "site" / "sesi_client" / "__init__.py")
