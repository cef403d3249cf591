"""Another revision of this repository, checked out in a temporary worktree and ready to run."""

import fcntl
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable

import attrs

from tools.bench.running import BenchFailed
from tools.driving.service import SourceTree

ROOT = pathlib.Path(__file__).parents[2]
LOCKS = ("build", "runtime", "laptop", "traces", "dev")
OLD_LOCKS = ("requirements-dev.lock", "requirements.lock")  # the second had the packages of development until 0.2
ENVIRONMENTS = ROOT / ".cache" / "environments"
INSTALL_S = 900.0


@attrs.frozen(kw_only=True)
class Revision:
    """A checked-out revision. `commit` is its full hash."""

    name: str
    commit: str
    code: SourceTree

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

    If our lock of development has each of its packages in the same version, this interpreter can run it. Otherwise they
    are installed into a new environment, which takes a minute the first time. Raises BenchFailed.
    """
    commit = find(name)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sesi-bench-rev-")) / "tree"
    folder.parent.chmod(0o711)
    made = Revision(name=name, commit=commit, code=SourceTree(folder=folder))
    done = _git("worktree", "add", "--quiet", "--detach", str(folder), commit)
    if done.returncode != 0:
        shutil.rmtree(folder.parent, ignore_errors=True)
        raise BenchFailed(f"{name} can't be checked out: {done.stderr.strip()}")
    try:
        if _pins(folder) <= _pins(ROOT):
            say(f"{name} is {commit[:10]}; this environment has its packages")
            return made
        say(f"{name} is {commit[:10]}; its locks differ from ours: installing its packages …")
        return attrs.evolve(made, code=SourceTree(python=_environment(folder), folder=folder))
    except BaseException:
        made.close()
        raise


def _locks(tree: pathlib.Path) -> list[pathlib.Path]:
    """Return the locks of a tree that have all its packages, those of its tools and embedded servers too."""
    if (folder := tree / "requirements").exists():
        return [folder / f"{name}.lock" for name in LOCKS]
    return [next(path for name in OLD_LOCKS if (path := tree / name).exists())]


def _pins(tree: pathlib.Path) -> set[str]:
    """Return the packages of a tree with their versions, such as `attrs==25.4.0`."""
    lines = [line for lock in _locks(tree) for line in lock.read_text().splitlines()]
    return {line.removesuffix(" \\") for line in lines if line and not line.startswith((" ", "#"))}


def _environment(tree: pathlib.Path) -> str:
    """Return the interpreter of an environment with the locked packages of a tree; install it if it is not cached.

    Raises BenchFailed.
    """
    locks = _locks(tree)
    home = (
        ENVIRONMENTS
        / hashlib.sha256(b"".join(lock.read_bytes() for lock in locks) + sys.version.encode()).hexdigest()[:16]
    )
    python, installed = home / "bin" / "python", home / "installed"
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not installed.exists():
            shutil.rmtree(home, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(home)])
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, "--require-hashes", "--no-deps", *(word for lock in locks for word in ("-r", str(lock)))])
            # Its processes read their version from the installed package, and run the code of the checkout.
            _run([*pip, "--no-deps", "--no-build-isolation", "-e", str(tree)])
            installed.touch()
    return str(python)


def _run(command: list[str]) -> None:
    """Run a command. Raises BenchFailed with the end of its error output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode != 0:
        raise BenchFailed(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")


def _git(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=False)
