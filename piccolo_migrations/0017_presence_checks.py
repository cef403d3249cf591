"""Presence checks: pushes that ask silent phones for a heartbeat."""

from core.storage.sql_migration import sql_migration

ID = "0017"
forwards = sql_migration(__file__, ID, "0017_presence_checks.sql", "0017_presence_check_indexes.sql")
