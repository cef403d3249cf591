"""The programs of the engines: whether they are installed, and running them with their logs in one folder."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
from typing import Any

from tests import debian
from tools.embedded import programs as embedded

ROOT = pathlib.Path(__file__).parents[2]
PATRONI_PYTHON = ROOT / ".venv-ha" / "bin" / "python"
PACKAGES = {"etcd": "etcd-server", "haproxy": "haproxy", "pgbouncer": "pgbouncer"}


def missing_packages(*names: str) -> str:
    """Return which of these programs are missing and how to install them; an empty text if none is."""
    return debian.missing({name: PACKAGES[name] for name in names})


def missing() -> str:
    """Return what is missing for the tests with Patroni and how to install it; an empty text if nothing is."""
    if absent := missing_packages(*PACKAGES):
        return absent
    if not PATRONI_PYTHON.exists():
        return "Patroni is missing: run `make engines`"
    if os.geteuid() == 0:  # PostgreSQL and Patroni refuse root
        account = embedded._account(None)
        for needed in (PATRONI_PYTHON, PATRONI_PYTHON.resolve()):
            if not embedded._may_enter(needed.parent, account):
                return f"user {account.uid}, who runs Patroni, can't read {needed}: allow others to search its folders"
    return ""


class Programs:
    """Running programs. Under root they run as the account of the embedded servers."""

    def __init__(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sesi-ha-"))
        self._account = embedded._account(None) if os.geteuid() == 0 else None
        self.folder.chmod(0o755)
        if self._account is not None:
            os.chown(self.folder, self._account.uid, self._account.gid)
        self.postgres = embedded.postgres_programs(self.folder, self._account)
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: Any) -> None:
        """Start a program; its output goes to a file of the folder."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True,
                env={"PATH": debian.PATH, "LC_ALL": "C.UTF-8", "HOME": str(self.folder)},
                user=self._account.uid if self._account else None,
                group=self._account.gid if self._account else None,
                extra_groups=[] if self._account else None,
            )  # fmt: skip

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a program, if it still runs."""
        self.running[name].send_signal(number)

    def kill(self, name: str) -> None:
        """Send SIGKILL to a program and wait for its end."""
        self.running[name].kill()
        self.running[name].wait()

    def logs(self) -> str:
        """Return the ends of all logs, for an error message."""
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in self.folder.glob("*.log")
        )

    def close(self) -> None:
        """Kill everything that runs, and delete the folder."""
        for name in self.running:
            with contextlib.suppress(ProcessLookupError):
                self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)
