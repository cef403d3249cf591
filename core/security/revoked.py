"""Recently ended auth sessions, whose access tokens still have a valid signature."""

from collections.abc import Iterable


class RevokedLogins:
    """A set of ended auth sessions. Each stays in it until its access tokens have expired."""

    def __init__(self, *, keep_s: float) -> None:
        """Keep each for `keep_s` real seconds."""
        self._keep_s = keep_s
        self._until: dict[str, float] = {}  # id -> end on the monotonic clock, earliest first
        self._replaced: set[str] = set()

    def __contains__(self, auth_session_id: str) -> bool:
        return auth_session_id in self._until

    def __len__(self) -> int:
        return len(self._until)

    def is_replaced(self, auth_session_id: str) -> bool:
        """Return whether the device of an ended auth session has the tokens of the next one."""
        return auth_session_id in self._replaced

    def added_since(self, moment: float) -> list[str]:
        """Return the ended auth sessions that were added, or added again, at or after a moment of the monotonic clock."""
        found: list[str] = []
        for auth_session_id, until in reversed(self._until.items()):
            if until < moment + self._keep_s:
                break
            found.append(auth_session_id)
        return found

    def add(self, auth_session_ids: Iterable[str], *, now: float, replaced: bool = False) -> None:
        """Add ended auth sessions; drop those whose tokens have expired. `now` is on the monotonic clock."""
        auth_session_ids = list(auth_session_ids)
        if replaced:
            self._replaced.update(auth_session_ids)
        for auth_session_id in auth_session_ids:
            self._until.pop(auth_session_id, None)
            self._until[auth_session_id] = now + self._keep_s
        while self._until:
            oldest = next(iter(self._until))
            if self._until[oldest] > now:
                return
            del self._until[oldest]
            self._replaced.discard(oldest)
