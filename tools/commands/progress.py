"""The progress of a command that takes longer than a moment: a bar on a terminal, and plain lines elsewhere.

Both go to standard error, so that the output of the command can be piped.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.file_proxy import FileProxy
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from core.base.progress import Report, left

FIRST_LINE_S = 2.0
LINES_S = 10.0  # between two plain lines
BAR_WIDTH = 72  # columns of a terminal on which a bar has room; narrower ones get a percentage


@contextlib.contextmanager
def shown(what: str, *, expected_s: float = 0.0) -> Iterator[Report]:
    """Show the progress of `what` until the block ends. `expected_s` is how long it takes, about; 0: unknown."""
    console = Console(stderr=True, highlight=False)
    # Rich draws nothing on a dumb terminal, and takes FORCE_COLOR for a terminal.
    kind = _Bar if sys.stderr.isatty() and not console.is_dumb_terminal else _Lines
    made = kind(what, console, expected_s)
    with made:
        yield made.report


class _Bar(contextlib.AbstractContextManager["_Bar"]):
    def __init__(self, what: str, console: Console, expected_s: float) -> None:
        done = BarColumn(20) if console.width >= BAR_WIDTH else TextColumn("{task.percentage:3.0f}%")
        columns = TextColumn("{task.description}", markup=False), done, _Left(expected_s), _Step()
        self._progress = Progress(
            *columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty(), refresh_per_second=4
        )
        self._task = self._progress.add_task(what, total=1.0, step="", began=(now := time.monotonic()), reported=now)

    def __enter__(self) -> "_Bar":
        self._progress.start()
        if isinstance(sys.stdout, FileProxy):
            sys.stdout = _AboveBar(sys.stdout)  # restored with Rich's own
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def report(self, share: float, step: str) -> None:
        self._progress.update(self._task, completed=share, step=step, reported=time.monotonic())


class _AboveBar:
    """Standard output during a bar. Rich's own proxy prints above the bar, but other consoles of Rich write past it."""

    def __init__(self, proxy: FileProxy) -> None:
        self._proxy = proxy

    def __getattr__(self, name: str) -> Any:
        if name == "rich_proxied_file":  # what those consoles ask for
            raise AttributeError(name)
        return getattr(self._proxy, name)


class _Left(ProgressColumn):
    def __init__(self, expected_s: float) -> None:
        super().__init__(Column(no_wrap=True))
        self._expected_s = expected_s

    def render(self, task: Task) -> Text:
        began, reported = task.fields["began"], task.fields["reported"]
        rest = left(task.completed, reported - began, time.monotonic() - reported, self._expected_s)
        return Text(f"{rest:18}")


class _Step(ProgressColumn):
    """The step. It is the column that is cut if the terminal is narrow."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["step"], no_wrap=True, overflow="ellipsis")


class _Lines(contextlib.AbstractContextManager["_Lines"]):
    """Plain lines, from a thread: during a long step, which reports nothing, the last report is repeated."""

    def __init__(self, what: str, console: Console, expected_s: float) -> None:
        self._what, self._console, self._expected_s = what, console, expected_s
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
            rest = left(share, reported - self._began, now - reported, self._expected_s)
            words = [f"{share:.0%}", f"{now - self._began:.0f} s", rest, step]
            line = f"{self._what}: {', '.join(word for word in words if word)}"
            self._console.print(line, markup=False, soft_wrap=True)
