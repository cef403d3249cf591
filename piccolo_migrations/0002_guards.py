"""Create the triggers that refuse what no flow may do (docs/invariants.md)."""

from core.storage.sql_migration import sql_migration

ID = "0002"
forwards = sql_migration(
    __file__,
    ID,
    "0002_edges.sql",
    "0002_money.sql",
    "0002_messages.sql",
    "0002_prices.sql",
    "0002_audit_log.sql",
    "0002_refresh_tokens.sql",
)
