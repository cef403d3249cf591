"""How a process is told to stop."""

import asyncio
import signal


def stop_event() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set; the running loop owns both signals from now on."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
