"""Which customers' rows belong to one account, as this process knows it (contract 3, the caller's ids).

How this works: the ids of an account only grow, when an anonymous customer signs into it. That sign-in opens a new auth
session; so whoever presents an auth session that was not seen here before has the ids read anew. Processes that know the
account already are told to forget it.
"""

LIMIT = 20_000  # accounts kept in memory


class Accounts:
    """Customer -> the caller's ids, as long as only known auth sessions ask."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[str, ...], set[str]]] = {}

    def get(self, customer_id: str, auth_session_id: str) -> tuple[str, ...] | None:
        """Return the account's ids; None when they must be read."""
        found = self._known.get(customer_id)
        return found[0] if found is not None and auth_session_id in found[1] else None

    def put(self, customer_id: str, auth_session_id: str, ids: tuple[str, ...]) -> None:
        """Keep what was read for an auth session."""
        if len(self._known) >= LIMIT:
            self._known.clear()
        before = self._known.get(customer_id)
        seen = before[1] if before is not None else set()
        self._known[customer_id] = (ids, seen | {auth_session_id})

    def forget(self, customer_id: str) -> None:
        """The account has grown."""
        self._known.pop(customer_id, None)
