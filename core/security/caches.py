"""What a process remembers of callers: their ids, and recently ended auth sessions.

The cache of the caller's ids is docs/product.md#the-callers-ids. An account gains ids only when an anonymous customer
joins it. That sign-in opens a new auth session, so an auth session that was not seen here before makes the process read
the ids again. A signal makes processes that have cached the account drop it.
"""

from collections.abc import Iterable

LIMIT = 20_000  # accounts kept in memory


class Accounts:
    """Maps customers to the caller's ids, valid for the auth sessions that were seen with them."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[str, ...], set[str]]] = {}

    def get(self, customer_id: str, auth_session_id: str) -> tuple[str, ...] | None:
        """Return the account's ids; None if they must be read."""
        found = self._known.get(customer_id)
        return found[0] if found is not None and auth_session_id in found[1] else None

    def put(self, customer_id: str, auth_session_id: str, ids: tuple[str, ...]) -> None:
        """Store the ids that were read for an auth session."""
        if len(self._known) >= LIMIT:
            self._known.clear()
        before = self._known.get(customer_id)
        seen = before[1] if before is not None else set()
        self._known[customer_id] = (ids, seen | {auth_session_id})

    def forget(self, customer_id: str) -> None:
        """Drop an account that has gained ids."""
        self._known.pop(customer_id, None)


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
        """Return the ended auth sessions that were added, or added again, since a moment of the monotonic clock."""
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
