"""`make package-proof`: install the wheel with the runtime lock alone, and play a paid session on the result.

deploy/install.sh installs into an empty environment, as the container image does. The servers run in the environment
of this command. Prints each step; exits with 1 and the reason if one fails.
"""

import importlib.metadata
import os
import pathlib
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from packaging.utils import canonicalize_name

from tools.commands import environment
from tools.driving.service import PROCESSES, Service, SourceTree
from tools.driving.throwaway import free_port
from tools.pages.licences import ROOT, pins

PACKAGES = ("api", "core", "jobs", "piccolo_migrations", "realtime", "tools")
OF_A_CHECKOUT = ("tools/bench/", "tools/checks/", "tools/compatibility/", "tools/pages/")  # as in pyproject.toml
COMMANDS_OF_A_CHECKOUT = ("bench", "grow")
DEMO_S = 300.0  # the longest time for the demo, which takes half a minute
SCALE = 60.0
PASSWORD = secrets.token_urlsafe(16)
PORTS = ("PUBLIC_PORT", "INTERNAL_PORT", "REALTIME_PORT", "JOBS_PORT")
EXTRA = "extra `laptop`"
# Makes the help of each command, imports what runs it, and prints its name: one start instead of sixty.
COMMANDS = """
import importlib
from tools.cli import parser

def look(made, words):
    made.format_help()
    if (run := made.get_default("run")) is not None:
        module, function = run.args
        getattr(importlib.import_module(f"tools.commands.{module}"), function)
        print(*words)
    for action in made._actions:
        for name, below in action.choices.items() if isinstance(action.choices, dict) else ():
            look(below, [*words, name])

look(parser(), [])
"""


class ProofFailed(Exception):
    """The installation lacks or has something. The message says what."""


def install(target: pathlib.Path) -> None:
    """Install the service into the new environment `target`. Raises ProofFailed."""
    done = subprocess.run(
        [ROOT / "deploy" / "install.sh", ROOT, target],
        env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ProofFailed(f"deploy/install.sh failed:\n{done.stdout}{done.stderr}")


def check_packages(site: pathlib.Path) -> int:
    """Return the number of installed packages. Raises ProofFailed if one is not in the runtime lock."""
    found = {canonicalize_name(one.name) for one in importlib.metadata.distributions(path=[str(site)])}
    if others := sorted(found - pins().keys() - {"sesi"}):
        raise ProofFailed(f"the environment has packages that runtime.lock does not name: {', '.join(others)}")
    return len(found)


def check_files(site: pathlib.Path) -> int:
    """Return the number of installed files of the service. Raises ProofFailed if one of the checkout is missing."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", *PACKAGES], capture_output=True, text=True, check=False
    ).stdout.split()
    tracked = [name for name in listed if (ROOT / name).is_file() and not name.startswith(OF_A_CHECKOUT)]
    if not tracked:
        raise ProofFailed("git lists no files: run `make package-proof` in a checkout")
    if missing := [name for name in tracked if not (site / name).is_file()]:
        raise ProofFailed(f"the wheel lacks {', '.join(missing)}: see package-data in pyproject.toml")
    return len(tracked)


class Installed:
    """The installed service, run in an empty folder, so that it can't use files of the checkout."""

    def __init__(self, target: pathlib.Path, folder: pathlib.Path) -> None:
        self.python = target / "bin" / "python"
        self.code = SourceTree(python=str(self.python), folder=folder)
        self._sesi = target / "bin" / "sesi"
        self._folder = folder

    def run(self, *args: str, fails: bool = False, **env: str) -> str:
        """Run a command without servers and return its output. Raises ProofFailed unless it succeeds or `fails`."""
        done = subprocess.run(
            [self._sesi, *args], cwd=self._folder, env=environment.without_settings() | env, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if (done.returncode != 0) is not fails:
            raise ProofFailed(f"sesi {' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def site(self) -> pathlib.Path:
        """Return the folder of the installed packages."""
        words = [self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        return pathlib.Path(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())


def check_commands(installed: Installed) -> int:
    """Return the number of commands whose modules are there. Raises ProofFailed if one does not work."""
    done = subprocess.run(
        [installed.python, "-c", COMMANDS], cwd=installed.code.folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ProofFailed(done.stderr)
    names = done.stdout.splitlines()
    if others := [name for name in names if name in COMMANDS_OF_A_CHECKOUT]:
        raise ProofFailed(f"the installation has commands of a checkout: {', '.join(others)}")
    for words in (["openapi", "public"], ["openapi", "internal"], ["asyncapi"], ["settings"], ["audit", "--rules"]):
        installed.run(*words)
    ports = {variable: str(free_port()) for variable in PORTS}  # the developer's service may have the usual ones
    for name in ("up", "demo"):
        if EXTRA not in (said := installed.run(name, fails=True, **ports)):
            raise ProofFailed(f"sesi {name} does not name the extra that it needs: {said}")
    return len(names)


def status_of(url: str) -> int:
    """Return the status of an answer to GET."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def play(installed: Installed) -> None:
    """Play a paid session on the three processes, with servers of this environment. Raises ProofFailed."""
    service = Service(durable=False, scale=SCALE, prefix="sesi-package-", code=installed.code)
    try:
        for name in PROCESSES:  # `sesi demo --running` reads codes in the logs of `sesi up`
            (service.root / "log" / f"{name}.log").symlink_to(service.root / f"{name}.log")
        service.command("migrate")
        service.command("migrate", "--check")
        service.command("seed", "tiers")
        service.command(
            "operator", "create", "--email", "proof@sesi.local", "--display-name", "Proof", "--role", "administrator",
            "--password-stdin", stdin=PASSWORD,
        )  # fmt: skip
        service.start_all()
        service.command("doctor")
        for path, status in (("/openapi.json", 200), ("/docs", 404)):  # the page needs the extra `laptop`
            if (found := status_of(service.addresses.public + path)) != status:
                raise ProofFailed(f"{path}: expected {status}, got {found}")
        demo = subprocess.run(
            [installed.python, "-m", "tools.cli", "demo", "--running"],
            cwd=installed.code.folder, env=service.env, capture_output=True, text=True, timeout=DEMO_S, check=False,
        )  # fmt: skip
        if demo.returncode:
            raise ProofFailed(f"sesi demo --running: {demo.returncode}\n{demo.stdout}{demo.stderr}")
        print(demo.stdout, end="")
        print(service.command("audit").stdout, end="")
    except AssertionError as error:
        raise ProofFailed(str(error)) from error
    finally:
        service.close()


def main() -> int:
    """Run the proof; return the exit code."""
    began = time.monotonic()
    os.environ.pop("PYTHONPATH", None)  # it may name the checkout
    with tempfile.TemporaryDirectory(prefix="sesi-package-") as folder:
        place = pathlib.Path(folder)
        place.joinpath("empty").mkdir()
        installed = Installed(place / "environment", place / "empty")
        try:
            install(place / "environment")
            print(f"{check_packages(installed.site())} packages, all of runtime.lock")
            print(f"{check_files(installed.site())} files of the service, as in the checkout")
            print(f"{check_commands(installed)} commands have their modules without embedded servers")
            play(installed)
        except ProofFailed as error:
            print(f"package-proof: {error}", file=sys.stderr)
            return 1
    print(f"The wheel works with the runtime lock alone ({time.monotonic() - began:.0f} s).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
