"""The configuration as this process knows it: a copy in memory, replaced when a change is announced and each second."""

import datetime as dt
from typing import Any

from core.config.keys import KEYS


class Config:
    """Typed reading of the rows. Values are those of the specification's table Limits."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {name: key.default for name, key in KEYS.items()}
        self.version: str | None = None  # of the values, as the database tells it

    def number(self, name: str) -> int:
        """A whole number."""
        return self.values[name]

    def flag(self, name: str) -> bool:
        """A switch."""
        return self.values[name]

    def text(self, name: str) -> str:
        """A choice."""
        return self.values[name]

    def seconds(self, name: str) -> dt.timedelta:
        """A duration kept in seconds."""
        return dt.timedelta(seconds=self.values[name])

    def minutes(self, name: str) -> dt.timedelta:
        """A duration kept in minutes."""
        return dt.timedelta(minutes=self.values[name])
