"""This process's cache of the caller's ids (docs/product.md#the-callers-ids).

An account gains ids only when an anonymous customer joins it. That sign-in opens a new auth session, so an auth session
that was not seen here before makes the process read the ids again. A signal makes processes that have cached the
account drop it.
"""

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
