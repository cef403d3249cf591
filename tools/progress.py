"""The progress of a command that takes longer than a moment: a bar on a terminal, and plain lines elsewhere.

Both go to standard error, so that the output of the command can be piped.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from core.base.progress import Report, left

FIRST_LINE_S = 2.0
LINES_S = 10.0  # between two plain lines


@contextlib.contextmanager
def shown(what: str) -> Iterator[Report]:
    """Show the progress of `what` until the block ends."""
    console = Console(stderr=True, highlight=False)
    made = _Bar(what, console) if console.is_terminal else _Lines(what, console)
    with made:
        yield made.report


class _Bar(contextlib.AbstractContextManager["_Bar"]):
    def __init__(self, what: str, console: Console) -> None:
        columns = TextColumn("{task.description}", markup=False), BarColumn(), _Left(), TextColumn("{task.fields[step]}", markup=False)  # fmt: skip
        self._progress = Progress(
            *columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty(), refresh_per_second=4
        )
        self._task = self._progress.add_task(what, total=1.0, step="", began=time.monotonic(), reported=0.0)

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def report(self, share: float, step: str) -> None:
        self._progress.update(self._task, completed=share, step=step, reported=time.monotonic())


class _Left(ProgressColumn):
    def render(self, task: Task) -> Text:
        began, reported = task.fields["began"], task.fields["reported"]
        return Text(f"{left(task.completed, reported - began, time.monotonic() - reported):18}")


class _Lines(contextlib.AbstractContextManager["_Lines"]):
    """Plain lines, from a thread: during a long step, which reports nothing, the last report is repeated."""

    def __init__(self, what: str, console: Console) -> None:
        self._what, self._console = what, console
        self._began = self._reported = time.monotonic()
        self._share, self._step = 0.0, ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._print, daemon=True)

    def __enter__(self) -> "_Lines":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Print nothing more; the command says how it ended."""
        self._ended.set()
        self._thread.join()

    def report(self, share: float, step: str) -> None:
        self._share, self._step, self._reported = share, step, time.monotonic()

    def _print(self) -> None:
        wait_s = FIRST_LINE_S
        while not self._ended.wait(wait_s):
            wait_s = LINES_S
            share, step, reported, now = self._share, self._step, self._reported, time.monotonic()
            rest = left(share, reported - self._began, now - reported)
            words = [f"{share:.0%}", f"{now - self._began:.0f} s", rest, step]
            line = f"{self._what}: {', '.join(word for word in words if word)}"
            self._console.print(line, markup=False, soft_wrap=True)
