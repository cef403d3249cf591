"""Run the tests on several processes: `pytest --workers 4`.

The tests are collected once. The processes are forked afterwards, so each one has all modules and tests already. A worker
runs whole files, and asks for the next one when it begins the last test of a file. It gets a file of the same folder with
the same services while there is one, because these files share services that take seconds to start.
"""

import collections
import itertools
import multiprocessing
import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import attrs
import pytest
from _pytest import runner

FORK = multiprocessing.get_context("fork")
PARENT_ONLY = "of the parent only"  # the name of a plugin that records the reports of all workers
END_S = 60.0  # for the services of a worker to stop
GroupOf = Callable[[Sequence[pytest.Item]], Hashable]  # the group of a file's tests


@attrs.frozen
class WaitingFile:
    """The tests of a file that no worker has yet: `places` are their indexes in the session."""

    group: Hashable
    places: tuple[int, ...]


@attrs.define(eq=False)
class Worker:
    """A forked process. `left` are the tests that it was given and has not finished."""

    process: BaseProcess
    pipe: Connection
    group: Hashable = None
    left: collections.deque[int] = attrs.field(factory=collections.deque)


def files_of(items: Sequence[pytest.Item], places: Iterable[int], group_of: GroupOf) -> list[WaitingFile]:
    """Return the files of tests, in their order."""
    found = [tuple(part) for _, part in itertools.groupby(places, lambda place: items[place].path)]
    return [WaitingFile(group_of([items[place] for place in part]), part) for part in found]


def choice(waiting: Sequence[WaitingFile], own: Hashable, used: set[Hashable]) -> WaitingFile | None:
    """Return the next file for a worker whose last one was of the group `own`; `used` are the groups of the others.

    It is of the own group, else of one that no worker uses, else of the largest group.
    """
    same = [file for file in waiting if file.group == own]
    unused = [file for file in waiting if file.group not in used]
    sizes = collections.Counter(file.group for file in waiting)
    largest = sorted(waiting, key=lambda file: -sizes[file.group])
    return next(iter([*same[:1], *unused[:1], *largest[:1]]), None)


class Run:
    """The parent: it gives files to the workers, and reports what they send."""

    def __init__(self, session: pytest.Session, group_of: GroupOf) -> None:
        self._session = session
        self._group_of = group_of
        self._waiting = files_of(session.items, range(len(session.items)), group_of)
        self._workers: list[Worker] = []

    def run(self, count: int) -> None:
        """Run all files. Raises Session.Failed or Session.Interrupted if the run ends early."""
        session = self._session
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # the workers share it
        try:
            for _ in range(min(count, len(self._waiting))):
                self._start_worker()
            while self._workers:
                self._take_messages()
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        finally:
            for worker in self._workers:
                worker.pipe.close()  # the worker stops when it sends the next report
            for worker in self._workers:
                worker.process.join(END_S)

    def _start_worker(self) -> None:
        ours, theirs = FORK.Pipe()
        inherited = [ours, *(worker.pipe for worker in self._workers)]
        process = FORK.Process(target=_work, args=(self._session, theirs, inherited))
        process.start()
        theirs.close()
        self._workers.append(Worker(process, ours))

    def _take_messages(self) -> None:
        for pipe in wait([worker.pipe for worker in self._workers]):
            worker = next(one for one in self._workers if one.pipe is pipe)
            try:
                kind, content = worker.pipe.recv()
            except (EOFError, OSError):
                self._end(worker)
            else:
                getattr(self, f"_on_{kind}")(worker, content)

    def _on_next(self, worker: Worker, _: None) -> None:
        used = {one.group for one in self._workers if one is not worker}
        file = choice(self._waiting, worker.group, used)
        if file is not None:
            self._waiting.remove(file)
            worker.group = file.group
            worker.left.extend(file.places)
        worker.pipe.send(() if file is None else file.places)

    def _on_report(self, worker: Worker, data: dict[str, Any]) -> None:
        hook = self._session.config.hook
        report = hook.pytest_report_from_serializable(config=self._session.config, data=data)
        hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            worker.left.popleft()

    def _on_warning(self, _: Worker, recorded: dict[str, Any]) -> None:
        self._session.config.hook.pytest_warning_recorded.call_historic(kwargs=recorded)

    def _on_stop(self, _: Worker, reason: str) -> None:
        self._session.shouldfail = reason

    def _end(self, worker: Worker) -> None:
        """Remove a worker. If it died, its test has failed, and another worker runs the tests that it had left."""
        self._workers.remove(worker)
        worker.process.join()
        code = worker.process.exitcode
        if not worker.left:
            if code:
                self._session.shouldfail = f"a worker ended with exit code {code}"
            return
        items, place = self._session.items, worker.left.popleft()
        report = pytest.TestReport(
            items[place].nodeid, items[place].location, {}, "failed", f"its worker ended with exit code {code}", "call"
        )
        self._session.config.hook.pytest_runtest_logreport(report=report)
        self._waiting[:0] = files_of(items, worker.left, self._group_of)
        if self._waiting:
            self._start_worker()


class Sender:
    """The plugin of a worker that sends the reports to the parent."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self._config = config
        self._pipe = pipe
        self.is_registered = False  # before, it gets the warnings that the parent has already

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send the report of a test's setup, call or teardown."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Send a warning; its message as a text, since not every exception can be sent."""
        if not self.is_registered:
            return
        said = warning_message
        text = warnings.WarningMessage(str(said.message), said.category, said.filename, said.lineno)
        recorded = {"warning_message": text, "when": when, "nodeid": nodeid, "location": location}
        self._pipe.send(("warning", recorded))


def _items(session: pytest.Session, pipe: Connection) -> Iterator[pytest.Item]:
    """Ask for files until there are no more, and yield their tests."""
    while True:
        pipe.send(("next", None))
        places = pipe.recv()
        if not places:
            return
        for place in places:
            yield session.items[place]


def _work(session: pytest.Session, pipe: Connection, inherited: Sequence[Connection]) -> None:
    """Be a worker."""
    for other in inherited:
        other.close()
    _write_nothing(session.config)
    plugins = session.config.pluginmanager
    if plugins.has_plugin(PARENT_ONLY):
        plugins.unregister(name=PARENT_ONLY)
    sender = Sender(session.config, pipe)
    plugins.register(sender)
    sender.is_registered = True
    try:
        for item, following in itertools.pairwise(itertools.chain(_items(session, pipe), (None,))):
            assert item is not None
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail or session.shouldstop:
                pipe.send(("stop", str(session.shouldfail or session.shouldstop)))
                break
    except (EOFError, OSError, KeyboardInterrupt):  # the parent has closed the pipe, or was interrupted as well
        pass
    finally:
        runner.pytest_sessionfinish(session)  # stops what still runs


def _write_nothing(config: pytest.Config) -> None:
    """Leave the terminal to the parent, and capture output in files of this worker."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    capture.stop_global_capturing()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    capture.start_global_capturing()
    capture.suspend_global_capture()
