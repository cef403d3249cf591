"""Identify processes, so that a recorded process id is not confused with a later process of the same id."""

import os
import pathlib
import subprocess


def command_of(pid: int) -> str | None:
    """Return the command line of a process, with its arguments separated by spaces; empty while it is ending.

    None if it doesn't exist or is a zombie whose threads have all ended: that holds neither files nor ports.
    """
    if not pathlib.Path("/proc/self").exists():  # macOS
        listed = ["ps", "-ww", "-o", "stat=", "-o", "command=", "-p", str(pid)]
        found = subprocess.run(listed, capture_output=True, text=True, check=False).stdout
        state, _, command = found.strip().partition(" ")
        return command if state and state[0] != "Z" else None
    process = pathlib.Path("/proc", str(pid))
    try:
        # The fields from the third on, see proc(5). The second is a name in parentheses that may contain anything.
        fields = process.joinpath("stat").read_bytes().rpartition(b")")[2].split()
        state, threads = fields[0], int(fields[17])
        if state in (b"Z", b"X") and threads <= 1:
            return None
        return os.fsdecode(process.joinpath("cmdline").read_bytes()).replace("\0", " ")
    except OSError:
        return None


def begun_at(pid: int) -> str | None:
    """Return a text that identifies the start of a process among all with the same id; None if it doesn't exist."""
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
