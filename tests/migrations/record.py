"""Keep a record of the migrations that are on main: hashes of their files, and what an edited file was before.

- `committed.txt` has a line for each file below piccolo_migrations, as `sha256sum` prints it. Databases have run these
  files, so what a recorded file makes never changes. `make migrations` adds new files, and refuses when a recorded one
  was changed. A file may change how it locks tables, after its line was removed.
- `history.json.xz` has each set of files that a commit of main had, for tests of upgrades. `make schema-history` makes it
  from git; the tests need no git.
"""

import hashlib
import json
import lzma
import pathlib
import subprocess
import sys

import attrs

ROOT = pathlib.Path(__file__).parents[2]
MIGRATIONS = ROOT / "piccolo_migrations"
COMMITTED = pathlib.Path(__file__).with_name("committed.txt")
HISTORY = pathlib.Path(__file__).with_name("history.json.xz")

Steps = tuple[tuple[str, ...], ...]


@attrs.frozen
class State:
    """The migrations of one commit: the text of each file, by its path below piccolo_migrations."""

    commit: str
    files: dict[str, str]

    def write(self, folder: pathlib.Path) -> None:
        """Write the files into a folder."""
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def steps(self) -> Steps:
        """Return each migration in order: the name of its script, the script, and the SQL files that the script names."""
        files = sorted(self.files.items())
        scripts = [(name, text) for name, text in files if name.endswith(".py")]
        return tuple(
            (name, text, *(sql for path, sql in files if path.removeprefix("sql/") in text)) for name, text in scripts
        )


def present() -> dict[str, str]:
    """Return the text of each file that defines the schema, by its path below piccolo_migrations."""
    paths = sorted([*MIGRATIONS.glob("[0-9]*.py"), *MIGRATIONS.glob("sql/*.sql")])
    return {str(path.relative_to(MIGRATIONS)): path.read_text() for path in paths}


def committed() -> dict[str, str]:
    """Return the recorded hash of each file."""
    lines = [line.split(maxsplit=1) for line in COMMITTED.read_text().splitlines()]
    return {name: digest for digest, name in lines}


def digests() -> dict[str, str]:
    """Return the hash of each file as it is now."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in present().items()}


def states() -> list[State]:
    """Return the recorded states, oldest first."""
    recorded = json.loads(lzma.decompress(HISTORY.read_bytes()))
    texts = recorded["texts"]
    return [
        State(one["commit"], {name: texts[number] for name, number in one["files"].items()})
        for one in recorded["states"]
    ]


def changed() -> list[str]:
    """Return the recorded files that were changed or removed since."""
    known, now = committed(), digests()
    return sorted(name for name, digest in known.items() if now.get(name) != digest)


def _git(*args: str) -> str:
    return subprocess.run(["git", *args], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _history() -> list[State]:
    """Read each commit of main that changed the schema's files, oldest first; equal sets are kept once."""
    folder = MIGRATIONS.name
    found: list[State] = []
    for commit in _git("log", "--reverse", "--format=%h", "--abbrev=7", "main", "--", folder).split():
        paths = _git("ls-tree", "-r", "--name-only", commit, "--", folder).split()
        wanted = [path for path in paths if path.endswith((".sql", ".py")) and not path.endswith("__init__.py")]
        files = {path.removeprefix(f"{folder}/"): _git("show", f"{commit}:{path}") for path in sorted(wanted)}
        if not found or found[-1].files != files:
            found.append(State(commit, files))
    return found


def _write_history(found: list[State]) -> None:
    texts = sorted({text for state in found for text in state.files.values()})
    number = {text: at for at, text in enumerate(texts)}
    numbered = [{"commit": s.commit, "files": {name: number[text] for name, text in s.files.items()}} for s in found]
    data = json.dumps({"states": numbered, "texts": texts}, sort_keys=True).encode()
    HISTORY.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def add_new() -> int:
    """Record new files; return the exit code, which is 1 when a recorded file was changed."""
    if wrong := changed():
        sys.stderr.write(f"{', '.join(wrong)}: databases have run it as it was; add a new migration instead.\n")
        return 1
    COMMITTED.write_text("".join(f"{digest}  {name}\n" for name, digest in digests().items()))
    return 0


if __name__ == "__main__":
    if "--history" in sys.argv:
        _write_history(_history())
    raise SystemExit(add_new())
