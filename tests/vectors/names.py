"""The `$names` of a vector: ids that the vector does not fix."""

from typing import Any

USERS = {"customer": "019aa4b6-5f00-7000-8000-00000000c001", "mitra": "019aa4b6-5f00-7000-8000-00000000a001"}


class Mismatch(AssertionError):
    """What the client did is not what the vector says."""


class Names:
    """The value of each name: a new id when the player uses it first, or what the client used first."""

    def __init__(self, role: str, ordered: list[str]) -> None:
        """`ordered`: names whose ids are made now, each larger than the one before."""
        other = "mitra" if role == "customer" else "customer"
        self._values: dict[str, Any] = {"$me": USERS[role], "$other": USERS[other]}
        for name in ordered:
            self.fill(name)

    def fill(self, value: Any) -> Any:
        """Replace the names in a value that the player serves."""
        if isinstance(value, str) and value.startswith("$"):
            if value not in self._values:
                self._values[value] = f"019aa4b6-6000-7000-8000-{len(self._values):012x}"
            return self._values[value]
        if isinstance(value, list):
            return [self.fill(item) for item in value]
        if isinstance(value, dict):
            return {self.fill(key): self.fill(item) for key, item in value.items()}
        return value

    def match(self, wanted: Any, found: Any, where: str, *, whole: bool = False) -> None:
        """Compare what the client did with what is wanted. Raises Mismatch.

        An object may have more fields than wanted, unless `whole` is true; a list must have as many items.
        """
        if isinstance(wanted, str) and wanted.startswith("$"):
            wanted = self._values.setdefault(wanted, found)
        if isinstance(wanted, dict) and isinstance(found, dict):
            wanted = {self.fill(key): value for key, value in wanted.items()}
            if whole and set(found) - set(wanted) - {"ref"}:
                raise Mismatch(f"{where} has also {sorted(set(found) - set(wanted) - {'ref'})}")
            for key, value in wanted.items():
                self.match(value, found.get(key), f"{where}.{key}", whole=whole)
        elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
            for n, value in enumerate(wanted):
                self.match(value, found[n], f"{where}[{n}]", whole=whole)
        elif wanted != found:
            raise Mismatch(f"{where} is {found!r}, not {wanted!r}")

    def are_known(self, value: dict[str, Any]) -> bool:
        """Return whether each name among an object's fields has a value."""
        return all(not str(item).startswith("$") or item in self._values for item in value.values())

    def fits(self, wanted: Any, found: Any, *, whole: bool = False) -> bool:
        """Return whether `match` would succeed; no name gets a value."""
        before = dict(self._values)
        try:
            self.match(wanted, found, "", whole=whole)
        except Mismatch:
            return False
        finally:
            self._values = before
        return True
