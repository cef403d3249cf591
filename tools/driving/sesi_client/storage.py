"""What a client keeps over a restart: tokens and user, unsent messages, and the key of a payment without an answer."""

import json
import os
import pathlib
from typing import Any, Protocol

KEYS = SIGNED_IN, OUTBOX, PAYMENT = "signed_in", "outbox", "payment"


class Store(Protocol):
    """A place for JSON values by key. Each method raises OSError if the place cannot be used."""

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


class FileStore:
    """A store in files of one folder, readable by their owner only; no two clients may share a folder."""

    def __init__(self, folder: str | pathlib.Path) -> None:
        self._folder = pathlib.Path(folder)

    def get(self, key: str) -> Any:
        """Return a value, or None. A file that is not whole counts as none."""
        try:
            return json.loads((self._folder / f"{key}.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def set(self, key: str, value: Any) -> None:
        """Store a value: the file has the old or the new one, whenever the process ends."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, new = self._folder / f"{key}.json", self._folder / f"{key}.new"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    def remove(self, key: str) -> None:
        """Remove a value, if it is there."""
        (self._folder / f"{key}.json").unlink(missing_ok=True)


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
