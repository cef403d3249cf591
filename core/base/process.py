"""How a process is told to stop, and how it keeps its memory."""

import asyncio
import gc
import resource
import signal

# Batches make many short-lived objects at a time. By default each 700 of them would be searched for cycles, of which
# there are few.
YOUNG_OBJECTS = 25_000


def endings() -> list[signal.Signals]:
    """Return the signals, beside Ctrl-C, that end a command: SIGTERM, and SIGHUP unless `nohup` has it ignored."""
    hung_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, *hung_up]


def end_as_by_hand() -> None:
    """Let those signals end a command as Ctrl-C does: what it has started is stopped."""
    for number in endings():
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))


def stop_event() -> asyncio.Event:
    """Return an event that SIGTERM, SIGINT and SIGHUP (its terminal was closed) set; the running loop owns them from now on."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, *endings()):
        loop.add_signal_handler(number, stop.set)
    return stop


async def wait_for_second_signal(stop: asyncio.Event, seconds: float) -> bool:
    """Wait `seconds` real seconds after a stop signal, or until another one comes; `stop` is set again at the end.

    Returns whether another signal came.
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
    """Let this process open as many files as the system allows it: each socket is one, and shells begin with few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def settle_memory() -> None:
    """Leave what was loaded for good out of the search for cycles, and search less often; call it when all is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
