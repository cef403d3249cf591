"""Another revision of this repository, checked out in a temporary worktree and ready to run."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable

import attrs

from tools.bench.running import BenchFailed
from tools.service import Code

ROOT = pathlib.Path(__file__).parents[2]
LOCK = "requirements.lock"
INSTALL_S = 900.0


@attrs.frozen(kw_only=True)
class Revision:
    """A checked-out revision. `commit` is its full hash."""

    name: str
    commit: str
    code: Code

    def close(self) -> None:
        """Remove the checkout."""
        assert self.code.folder is not None
        _git("worktree", "remove", "--force", str(self.code.folder))
        shutil.rmtree(self.code.folder.parent, ignore_errors=True)


def find(name: str) -> str:
    """Return the full hash of a revision. Raises BenchFailed if git doesn't know it."""
    done = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if done.returncode != 0:
        raise BenchFailed(f"{name}: unknown git revision")
    return done.stdout.strip()


def check_out(name: str, say: Callable[[str], None]) -> Revision:
    """Check out a revision into a temporary worktree and prepare its environment.

    If its requirements.lock equals ours, this interpreter can run it. Otherwise its packages are installed into a new
    environment, which takes a minute. Raises BenchFailed.
    """
    commit = find(name)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sesi-bench-rev-")) / "tree"
    folder.parent.chmod(0o711)
    made = Revision(name=name, commit=commit, code=Code(folder=folder))
    done = _git("worktree", "add", "--quiet", "--detach", str(folder), commit)
    if done.returncode != 0:
        shutil.rmtree(folder.parent, ignore_errors=True)
        raise BenchFailed(f"{name} can't be checked out: {done.stderr.strip()}")
    try:
        if (folder / LOCK).read_bytes() == (ROOT / LOCK).read_bytes():
            say(f"{name} is {commit[:10]}; its {LOCK} equals ours, so it runs in this environment")
            return made
        say(f"{name} is {commit[:10]}; its {LOCK} differs from ours: installing its packages …")
        return attrs.evolve(made, code=Code(python=_install(folder), folder=folder))
    except BaseException:
        made.close()
        raise


def _install(folder: pathlib.Path) -> str:
    """Install the locked packages of a tree into a new environment in it; return its interpreter.

    Raises BenchFailed.
    """
    python = folder / ".venv" / "bin" / "python"
    pip = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "-r",
        LOCK,
        "-c",
        LOCK,
    ]
    for command in ([sys.executable, "-m", "venv", ".venv"], pip):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        if done.returncode != 0:
            raise BenchFailed(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
    return str(python)


def _git(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=False)
