"""Stop signals, file limits and garbage collection of a process."""

import asyncio
import gc
import linecache
import resource
import signal

# Batches allocate many short-lived objects with few reference cycles. Python's default would look for cycles after
# every 700 of them.
YOUNG_OBJECTS = 25_000


def endings() -> list[signal.Signals]:
    """Return the signals other than SIGINT that end a command: SIGTERM, and SIGHUP unless `nohup` made it ignored."""
    hung_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, *hung_up]


def end_as_by_hand() -> None:
    """Make those signals act like Ctrl-C, so that a command stops the processes that it has started."""
    for number in endings():
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))


def stop_event() -> asyncio.Event:
    """Return an event that is set by SIGTERM, SIGINT and SIGHUP (the terminal was closed).

    The running event loop handles these signals from now on.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, *endings()):
        loop.add_signal_handler(number, stop.set)
    return stop


async def wait_for_second_signal(stop: asyncio.Event, seconds: float) -> bool:
    """Wait up to `seconds` real seconds for another stop signal; return whether one came.

    `stop` is set again at the end.
    """
    stop.clear()
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        stop.set()
        return False
    return True


def raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard one: each socket is a file, and shells start with a low limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def tune_gc() -> None:
    """Exclude the objects loaded so far from garbage collection, and collect less often; call it after the start."""
    linecache.clearcache()  # attrs and cattrs keep the text of each method that they make
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
