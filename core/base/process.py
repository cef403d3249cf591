"""How a process is told to stop, and how it keeps its memory."""

import asyncio
import gc
import signal

# Batches make many short-lived objects at a time. By default each 700 of them would be searched for cycles, of which
# there are few.
YOUNG_OBJECTS = 25_000


def stop_event() -> asyncio.Event:
    """Return an event that SIGTERM, SIGINT and SIGHUP (its terminal was closed) set; the running loop owns them from now on."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    return stop


def settle_memory() -> None:
    """Leave what was loaded for good out of the search for cycles, and search less often; call it when all is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
