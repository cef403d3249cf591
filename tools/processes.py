"""Whether a process that was written down is still the one that is there."""

import os
import pathlib
import subprocess


def command_of(pid: int) -> str | None:
    """Read the command line of a process, its words parted by spaces.

    None when it is gone, or dead and only not yet reaped: a zombie whose threads have all ended holds neither
    files nor ports. Empty while it ends.
    """
    if not pathlib.Path("/proc/self").exists():  # macOS
        listed = ["ps", "-ww", "-o", "stat=", "-o", "command=", "-p", str(pid)]
        found = subprocess.run(listed, capture_output=True, text=True, check=False).stdout
        state, _, command = found.strip().partition(" ")
        return command if state and state[0] != "Z" else None
    process = pathlib.Path("/proc", str(pid))
    try:
        # From the third field on, see proc(5); the second, a name in parentheses, may hold anything.
        fields = process.joinpath("stat").read_bytes().rpartition(b")")[2].split()
        state, threads = fields[0], int(fields[17])
        if state in (b"Z", b"X") and threads <= 1:
            return None
        return os.fsdecode(process.joinpath("cmdline").read_bytes()).replace("\0", " ")
    except OSError:
        return None


def begun_at(pid: int) -> str | None:
    """Say when a process began, so that another one with the same id is not taken for it; None when it is gone."""
    if command_of(pid) is None:
        return None
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id")
    if not boot.exists():  # macOS
        shown = ["ps", "-o", "lstart=", "-p", str(pid)]
        return subprocess.run(shown, capture_output=True, text=True, check=False).stdout.strip() or None
    try:
        fields = pathlib.Path("/proc", str(pid), "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return f"{boot.read_text().strip()} {fields[19].decode()}"
