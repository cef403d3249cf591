"""Promised waits."""

from core.storage.sql_migration import sql_migration

ID = "0019"
forwards = sql_migration(__file__, ID, "0019_promises.sql")
