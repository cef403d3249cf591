"""This process's copy of the configuration, replaced when a signal reports a change, and checked every second."""

import datetime as dt
from typing import Any

from core.config.keys import KEYS


class Config:
    """Typed access to the configuration rows (docs/configuration.md); defaults until they are loaded."""

    def __init__(self, **values: Any) -> None:
        self.values: dict[str, Any] = {name: key.default for name, key in KEYS.items()} | values
        self.version: str | None = None  # of the values, as the database computes it; None until they are loaded

    def number(self, name: str) -> int:
        """Return a number."""
        return self.values[name]

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        return self.values[name]

    def text(self, name: str) -> str:
        """Return a choice."""
        return self.values[name]

    def seconds(self, name: str) -> dt.timedelta:
        """Return a duration that is stored in seconds."""
        return dt.timedelta(seconds=self.values[name])

    def minutes(self, name: str) -> dt.timedelta:
        """Return a duration that is stored in minutes."""
        return dt.timedelta(minutes=self.values[name])
