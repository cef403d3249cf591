"""A client of Sesi for Python: one device of one user, for bots, load and back ends."""

from .chat_view import Chat, ShownMessage
from .client import Client
from .errors import Closed, Refused, SesiError, SignedOut, Unreached
from .service_clock import ServiceClock
from .sockets import Socket
from .storage import FileStore, MemoryStore, Store
from .waits import Reconnection

__all__ = [
    "Chat",
    "Client",
    "Closed",
    "FileStore",
    "MemoryStore",
    "Reconnection",
    "Refused",
    "ServiceClock",
    "SesiError",
    "ShownMessage",
    "SignedOut",
    "Socket",
    "Store",
    "Unreached",
]
