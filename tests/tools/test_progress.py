"""Long commands show their progress and the remaining time on a terminal, and plain lines elsewhere."""

import asyncio
import os
import pathlib
import pty
import re
import subprocess
import sys
import termios
import threading
import time

import pytest

from core.base import ids
from core.base.progress import left, part
from tests.stack import Stack
from tools.commands import progress


@pytest.mark.parametrize(
    ("share", "elapsed_s", "since_s", "expected_s", "text"),
    [
        (0.0, 10, 0, 0, ""),
        (0.0, 10, 5, 75, "about 60 s left"),
        (0.0, 10, 90, 75, ""),
        (0.5, 10, 0, 0, "about 10 s left"),
        (0.5, 10, 0, 75, "about 10 s left"),
        (0.5, 10, 4, 0, "about 6 s left"),
        (0.5, 10, 60, 0, "about 1 s left"),
        (0.1, 60, 0, 0, "about 9 min left"),
        (1.0, 60, 0, 0, "about 1 s left"),
    ],
)
def test_the_rest_is_expected_to_go_as_fast_as_the_share_that_is_done(
    share: float, elapsed_s: float, since_s: float, expected_s: float, text: str
) -> None:
    assert left(share, elapsed_s, since_s, expected_s) == text


def test_a_part_of_the_work_reports_shares_of_the_whole() -> None:
    said: list[tuple[float, str]] = []
    report = part(part(lambda share, step: said.append((share, step)), 0.5, 1.0), 0.0, 0.5)
    report(0.0, "begin")
    report(1.0, "end")
    assert said == [(0.5, "begin"), (0.75, "end")]


async def on_terminal(
    command: list[str], env: dict[str, str], *, columns: int = 120, piped: bool = True
) -> tuple[str, str]:
    """Run a command whose standard error is a terminal, and its output a pipe if `piped`; return (output, what it
    showed)."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (40, columns))
    process = await asyncio.create_subprocess_exec(
        *command, env=env, stdout=subprocess.PIPE if piped else its, stderr=its
    )
    os.close(its)
    shown = bytearray()

    def read() -> None:
        try:
            while chunk := os.read(ours, 65536):
                shown.extend(chunk)
        except OSError:  # how Linux says that the other side is closed
            return

    reading = asyncio.create_task(asyncio.to_thread(read))
    out, _ = await process.communicate()
    await reading
    os.close(ours)
    assert process.returncode == 0, shown.decode(errors="replace")
    return (out or b"").decode(), shown.decode(errors="replace")


@pytest.mark.anyio
async def test_terminal_gets_a_bar_of_users_that_are_erased_again(stack: Stack, tmp_path: pathlib.Path) -> None:
    users = tmp_path / "users.jsonl"
    users.write_text(f'{{"event": "erased", "user_type": "customer", "user_id": "{ids.new_id()}"}}\n')
    command = [sys.executable, "-m", "tools.cli", "erasures", "reapply", str(users)]
    out, shown = await on_terminal(command, {**os.environ, **stack.env, "TERM": "xterm", "COLUMNS": "120"})
    assert out == "0 users are erased, 1 do not exist, 0 could not be erased.\n"
    assert "1 users left" in shown


@pytest.mark.anyio
async def test_terminal_gets_a_bar_and_the_pipe_only_the_result(stack: Stack) -> None:
    command = [sys.executable, "-m", "tools.cli", "audit"]
    out, shown = await on_terminal(command, {**os.environ, **stack.env, "TERM": "xterm", "COLUMNS": "120"})
    assert out.endswith("violations\n")
    assert out.count("\n") == 1
    assert "audit" in shown
    assert "━" in shown
    piped = stack.command("audit")
    assert piped.stdout.endswith("violations\n")
    assert "━" not in piped.stdout + piped.stderr


WORK = """
from rich.console import Console
from tools.commands import progress
progress.FIRST_LINE_S = 0.2
with progress.shown("database", expected_s=600) as report:
    report(share, "10 of 13 migrations left")
    time.sleep(seconds)
    Console().print("administrator")
"""


LONG_S = 3.0  # much longer than until the first line of WORK, on a machine that stalls


async def at_work(*, columns: int = 120, seconds: float = 0.0, share: float = 0.25, **env: str) -> str:
    """Return what a terminal shows of a command that prints a line after some seconds of its work."""
    command = [sys.executable, "-c", f"import time\nseconds, share = {seconds}, {share}{WORK}"]
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"} | env
    return (await on_terminal(command, env, columns=columns, piped=False))[1]


@pytest.mark.anyio
async def test_what_a_command_prints_during_its_work_is_a_line_above_the_bar() -> None:
    before, _, after = (await at_work()).partition("administrator")
    assert "\x1b[2K" in before[before.rindex("━") :]  # the bar was erased
    assert after.startswith("\r\n")


@pytest.mark.anyio
@pytest.mark.parametrize("columns", [71, 40])
async def test_bar_gives_way_to_the_remaining_time_on_a_narrow_terminal(columns: int) -> None:
    shown = await at_work(columns=columns)
    lines = re.split(r"\x1b\[2K|\r\n", re.sub(r"\x1b\[[\d;?]+[lhm]", "", shown))
    drawn = [line.rstrip("\r") for line in lines if "25%" in line]
    assert drawn
    assert all(re.match(r"database  25% about \d+ s left +10 of", line) and len(line) <= columns for line in drawn)
    assert "━" not in shown


@pytest.mark.anyio
@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
async def test_remaining_time_of_work_of_known_length_is_shown_from_the_beginning(terminal: str) -> None:
    shown = await at_work(seconds=LONG_S, share=0.0, TERM=terminal)
    assert "about 10 min left" in shown


@pytest.mark.anyio
async def test_dumb_terminal_gets_plain_lines() -> None:
    shown = await at_work(seconds=LONG_S, TERM="dumb")
    assert re.match(r"database: 25%, \d+ s, about \d+ s left, 10 of 13 migrations left\r\n", shown)
    assert "\x1b" not in shown


def test_pipe_gets_no_bar_if_colours_are_forced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress.shown("audit") as report:
        report(0.5, "rules")
    assert capsys.readouterr().err == ""


def lines_of(capsys: pytest.CaptureFixture[str], words: str, count: int) -> list[str]:
    """Return the lines that were printed from the first one that has these words, once there are this many."""
    said, until = "", time.monotonic() + 60
    while said.partition(words)[2].count("\n") < count and time.monotonic() < until:
        said += capsys.readouterr().err
        time.sleep(0.01)
    lines = said.splitlines()
    return lines[next(number for number, line in enumerate(lines) if words in line) :]


def test_last_report_is_repeated_at_intervals_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.05)
    monkeypatch.setattr(progress, "LINES_S", 0.05)
    with progress.shown("grow") as report:
        report(0.25, "chat_messages")
        report(0.5, "payment_requests")  # a long step
        lines = lines_of(capsys, "50%", 3)
    assert {re.sub(r"\d+ s, about .* left", "", line) for line in lines} == {"grow: 50%, , payment_requests"}
    assert all("_print" not in thread.name for thread in threading.enumerate())


def test_no_line_is_printed_about_a_command_that_ends_soon(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.shown("audit") as report:
        report(0.5, "rules")
    assert capsys.readouterr().err == ""
