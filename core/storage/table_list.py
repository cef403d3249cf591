"""The tables of every concept."""

import functools
import importlib

from piccolo.table import Table

CONCEPTS = [
    "accounts.blocks",
    "accounts.customers",
    "accounts.logins",
    "accounts.mitras",
    "accounts.operators",
    "cluster.leases",
    "cluster.outages",
    "config",
    "deliveries",
    "deliveries.pushes",
    "desk.audits",
    "desk.simulations",
    "erasures",
    "idempotency",
    "pairing",
    "pairing.promises",
    "payments",
    "payments.failures",
    "payments.ledger",
    "payments.pricing",
    "payments.refunds",
    "payments.webhooks",
    "sessions",
    "sessions.absences",
    "sessions.extensions",
    "sessions.messages",
    "sessions.receipts",
    "sessions.reports",
]


def _of(concept: str) -> list[type[Table]]:
    module = importlib.import_module(f"core.{concept}.tables")
    own = (one for one in vars(module).values() if getattr(one, "__module__", None) == module.__name__)
    return sorted((one for one in own if issubclass(one, Table)), key=lambda table: table.__name__)


@functools.cache
def declared_tables() -> tuple[type[Table], ...]:
    """Return the classes of all declared tables, by concept and name."""
    return tuple(table for concept in CONCEPTS for table in _of(concept))
