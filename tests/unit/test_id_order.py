"""New ids strictly increase, event ids follow the database's clock, and only one thread creates ids."""

import datetime as dt
import os
import threading
import uuid
from collections.abc import Iterator

import pytest

from core.base import ids

NOW = dt.datetime(2126, 11, 23, 4, 5, 6, 789_012, tzinfo=dt.UTC)  # later than any id that another test has created here


@pytest.fixture(autouse=True)
def any_thread() -> Iterator[None]:
    """Restore this process's clock of ids after the test."""
    now, thread = ids._SOURCE.now, ids._SOURCE.thread
    times = ids._TIMES, ids._EVENT_TIMES
    ids._TIMES, ids._EVENT_TIMES = ids._Times(), ids._Times()
    yield
    ids._TIMES, ids._EVENT_TIMES = times
    ids._SOURCE.now, ids._SOURCE.thread = now, thread


def milliseconds(text: str) -> int:
    """Return the time in a UUIDv7, in milliseconds."""
    return uuid.UUID(text).int >> 80


def test_new_ids_increase_within_a_moment_and_after_a_clock_set_back() -> None:
    times = iter([1_000_000] * 10_000 + [999_000, 500_000, 1_000_001])
    ids.follow(lambda: next(times))
    made = [ids.new_id() for _ in range(10_003)]
    assert made == sorted(set(made))
    assert {uuid.UUID(one).version for one in made} == {7}
    assert [milliseconds(made[n]) for n in (0, 4095, 4096)] == [1000, 1000, 1001]


def test_new_ids_take_their_time_from_the_service_clock() -> None:
    ids.follow(lambda: 1_234_567_890)
    assert milliseconds(ids.new_id()) == 1_234_567


def test_event_ids_use_the_given_moment_and_not_the_local_clock() -> None:
    made = [ids.new_event_id(NOW + dt.timedelta(microseconds=n)) for n in (0, 0, 1, 2, 1000)]
    assert made == sorted(set(made))
    assert [milliseconds(one) - int(NOW.timestamp()) * 1000 for one in made] == [789, 789, 789, 789, 790]


def test_new_id_in_another_thread_is_refused() -> None:
    ids.follow(ids._machine_time)
    failures: list[BaseException] = []

    def make() -> None:
        try:
            ids.new_id()
        except AssertionError as error:
            failures.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert len(failures) == 1


def test_forked_process_can_create_ids() -> None:
    ids.follow(ids._machine_time)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, ids.new_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert uuid.UUID(os.read(reading, 36).decode()).version == 7
