"""The checks of open files: the limits for new processes, those of running ones, and the machine's."""

import contextlib
import pathlib
import resource

import attrs

from core.settings.settings import Settings
from tools.doctor.findings import Finding, ok, problems_or

SPARE_FILES = 256  # open files of an API process that are not connections of clients
MOST_USED = 0.8  # of the machine's files
CHECK = "open files"
NO_LIMIT = resource.RLIM_INFINITY
PROC = pathlib.Path("/proc")
RAISE = "raise the hard limit (ulimit -Hn, LimitNOFILE)"


@attrs.frozen
class Running:
    """A process of the service on this machine, with its hard limit of open files, to which it raises the soft one."""

    kind: str
    pid: int
    limit: int


def check(settings: Settings, proc: pathlib.Path = PROC) -> list[Finding]:
    """Compare the limits with what an API process needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.http_connections + SPARE_FILES
    failures = []
    if hard != NO_LIMIT and hard < needed:
        failures.append(
            f"{hard} for each process, but HTTP_CONNECTIONS needs {needed}: {RAISE}; each socket of the realtime process "
            "needs one, too"
        )
    processes = running(proc)
    failures += [
        f"the running {one.kind} process {one.pid} has {one.limit}, but needs {needed}: {RAISE} of its supervisor"
        for one in processes
        if one.kind in ("api", "realtime") and one.limit < needed
    ]
    state = "no limit" if hard == NO_LIMIT else f"{soft} to {hard} for each process"
    seen = f"; {len(processes)} running processes" if processes else ""
    return problems_or(ok(CHECK, state + seen), failures=failures, warnings=_machine(proc, needed))


def running(proc: pathlib.Path = PROC) -> list[Running]:
    """Return the processes of the service that this user may look at."""
    found = []
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, StopIteration):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            if words[-1] not in ("api", "realtime", "jobs") or not _is_ours(words[:-1]):
                continue
            lines = (folder / "limits").read_text().splitlines()
            limit = next(line.split()[4] for line in lines if line.startswith("Max open files"))
            found.append(Running(words[-1], int(folder.name), NO_LIMIT if limit == "unlimited" else int(limit)))
    return [one for one in found if one.limit != NO_LIMIT]


def _is_ours(words: list[str]) -> bool:
    return "tools.cli" in words or any(word.endswith("/sesi") for word in words)


def _machine(proc: pathlib.Path, needed: int) -> list[str]:
    """Check how many files the whole machine may open."""
    try:
        used, _, most = map(int, (proc / "sys/fs/file-nr").read_text().split())
    except (OSError, ValueError):
        return []
    if used > most * MOST_USED or most < needed:
        return [
            f"{used} of the machine's {most} files are open, and a process needs {needed}: raise fs.file-max (sysctl)"
        ]
    return []
