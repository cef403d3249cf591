"""An empty machine with Debian 12 and its own systemd: a container of systemd-nspawn that shares the network."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping

from tests import debian
from tools.commands.environment import why_not

ROOT = pathlib.Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "debian"
KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SOURCES = pathlib.Path("/etc/apt/sources.list.d/debian.sources")
SOURCE = "usr/local/src/sesi"  # where the page has the source of a release
# How this machine reaches the registries of packages.
REGISTRIES = (
    "/etc/pip.conf",
    "/root/.config/pip",
    "/etc/apt/apt.conf.d",
    str(SOURCES),
    "/usr/local/share/ca-certificates",
)
# Programs of the page: The machine shares the network of this one.
PORTS = (443, 5432, 6379, 8000, 8001, 8010, 8020, 8443, 9100)
BOOT_S = 300.0


def missing() -> str:
    """Return why no such machine can run here; an empty text if one can."""
    if os.geteuid() != 0:
        return "not root"
    if not SOURCES.exists():
        return "not Debian 12"
    if taken := [str(port) for port in PORTS if why_not("PORT", "127.0.0.1", port)]:
        return f"other programs use the ports {', '.join(taken)}"
    return debian.missing({name: name for name in ("systemd-nspawn", "debootstrap", "nsenter")})


def base() -> pathlib.Path:
    """Return the folder of an installed Debian without anything else, made once."""
    done = CACHE / "root"
    if not done.exists():
        address = re.findall(r"^URIs: (\S+)", SOURCES.read_text(), re.M)[0]
        CACHE.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(dir=CACHE))
        made.chmod(0o755)
        install = ["debootstrap", "--variant=minbase", f"--keyring={KEYRING}", "--include=systemd,systemd-sysv,dbus"]
        subprocess.run([*install, "bookworm", str(made), address], check=True, stdout=subprocess.DEVNULL)
        made.rename(done)
    return done


class Machine:
    """A running machine. `say` gets each line of its commands' output; `hosts` are names that lead to loopback."""

    def __init__(self, say: Callable[[str], None], *hosts: str) -> None:
        self._say = say
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="sesi-machine-"))
        self.root = self._folder / "root"
        self._nspawn: subprocess.Popen[bytes] | None = None
        try:
            self._fill(*hosts)
            self._boot()
        except BaseException:
            self.close()
            raise

    def _fill(self, *hosts: str) -> None:
        for name in ("root", "changes", "work"):
            (self._folder / name).mkdir()
        layers = f"lowerdir={base()},upperdir={self._folder}/changes,workdir={self._folder}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(self.root)], check=True)
        (self.root / "etc" / "hosts").write_text(f"127.0.0.1 localhost {' '.join(hosts)}\n")
        (self.root / "etc" / "apt" / "sources.list").unlink(missing_ok=True)
        (self.root / "etc" / "dpkg" / "dpkg.cfg.d" / "fast").write_text("force-unsafe-io\n")
        for name in REGISTRIES:
            here, there = pathlib.Path(name), self.root / name.lstrip("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            if here.is_dir():
                shutil.copytree(
                    here, there, dirs_exist_ok=True, ignore=shutil.ignore_patterns("docker-*", "*packagekit")
                )
            elif here.exists():
                shutil.copy(here, there)
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True).stdout
        for name in listed.splitlines():
            if (ROOT / name).is_file():
                (self.root / SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.root / SOURCE / name)

    def _boot(self) -> None:
        archives = CACHE / "archives"
        archives.mkdir(parents=True, exist_ok=True)
        wheels = [f"--bind-ro={path}" for path in os.environ.get("PIP_FIND_LINKS", "").split() if os.path.isdir(path)]
        with (self._folder / "console.log").open("wb") as log:
            self._nspawn = subprocess.Popen(
                [
                    "systemd-nspawn", "--quiet", "--boot", f"--directory={self.root}", "--machine=sesi", "--register=no",
                    "--keep-unit", "--resolv-conf=copy-host", "--link-journal=no", "--console=read-only",
                    f"--bind={archives}:/var/cache/apt/archives", *wheels,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + BOOT_S
        while self._state() not in {"running", "degraded"}:
            console = (self._folder / "console.log").read_text(errors="replace")
            assert self._nspawn.poll() is None, console
            assert time.monotonic() < deadline, console
            time.sleep(0.2)

    def _state(self) -> str:
        command = self._inside("systemctl", "is-system-running")
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() if command else ""

    def _inside(self, *command: str) -> list[str]:
        """Return the command that runs another one in the machine; an empty list while it has no first process."""
        assert self._nspawn is not None
        pid = self._nspawn.pid
        with contextlib.suppress(OSError, IndexError):
            first = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
            environment = {
                name: value
                for name, value in os.environ.items()
                if name.startswith("PIP_") or name in {"SSL_CERT_FILE", "http_proxy", "https_proxy", "no_proxy"}
            }
            plain = {
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/root",
                "DEBIAN_FRONTEND": "noninteractive",
            }
            values = [f"{name}={value}" for name, value in {**environment, **plain}.items()]
            return ["nsenter", "--all", "--target", first, "env", "--ignore-environment", *values, *command]
        return []

    def run(self, script: str, *, answers: Mapping[str, str] | None = None, check: bool = True) -> str:
        """Run a script of bash in the page's folder; return its output. Raises AssertionError if a line fails.

        `answers`: what a person types, by words of the command that asks for it.
        """
        traced = f"PS4='+ $(date +%T) '; set -euxo pipefail; cd /{SOURCE}\n{script}"
        process = subprocess.Popen(
            self._inside("bash", "-c", traced),
            stdin=subprocess.PIPE if answers else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", bufsize=1,
        )  # fmt: skip
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            self._say(line.rstrip("\n"))
            for typed in [text for words, text in (answers or {}).items() if line.startswith("+ ") and words in line]:
                assert process.stdin is not None
                process.stdin.write(typed)
        text = "".join(said)
        code = process.wait()
        assert code == 0 or not check, f"{script}\n{code}\n{text[-3000:]}"
        return text

    def close(self) -> None:
        """Stop the machine and delete it."""
        if self._nspawn is not None and self._nspawn.poll() is None:
            self._nspawn.terminate()  # the machine is shut down
            try:
                self._nspawn.wait(60)
            except subprocess.TimeoutExpired:
                self._nspawn.kill()
                self._nspawn.wait()
        subprocess.run(["umount", str(self.root)], check=False)
        shutil.rmtree(self._folder, ignore_errors=True)
