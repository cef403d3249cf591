"""What a client keeps over a restart: the tokens, the user and the messages that are not acknowledged."""

from typing import Any, Protocol

KEYS = SIGNED_IN, OUTBOX = "signed_in", "outbox"


class Store(Protocol):
    """A place for JSON values by key, such as a file. Each method raises OSError if the place cannot be used."""

    def get(self, key: str) -> Any:
        """Return a value, or None."""

    def set(self, key: str, value: Any) -> None:
        """Store a value."""

    def remove(self, key: str) -> None:
        """Remove a value, if it is there."""


class MemoryStore:
    """A store for a client that never restarts."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        """Return a value, or None."""
        return self._values.get(key)

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        self._values[key] = value

    def remove(self, key: str) -> None:
        """Remove a value, if it is there."""
        self._values.pop(key, None)


class DeviceStorage:
    """A store that continues in memory after a failure; `saved` is False from then on."""

    def __init__(self, store: Store | None = None) -> None:
        self._memory = MemoryStore()
        self._store: Store = self._memory if store is None else store
        self.saved = True

    def get(self, key: str) -> Any:
        """Return a value, or None."""
        try:
            return self._store.get(key)
        except OSError:
            return self._fall_back().get(key)

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        self._memory.set(key, value)
        try:
            self._store.set(key, value)
        except OSError:
            self._fall_back()

    def remove(self, key: str) -> None:
        """Remove a value, if it is there."""
        self._memory.remove(key)
        try:
            self._store.remove(key)
        except OSError:
            self._fall_back()

    def empty(self) -> None:
        """Remove everything: the user has signed out."""
        for key in KEYS:
            self.remove(key)

    def _fall_back(self) -> MemoryStore:
        self.saved, self._store = False, self._memory
        return self._memory
