"""Signed-in mitras, and auth sessions that were replaced by the next one of their device."""

from core.storage.sql_migration import sql_migration

ID = "0022"
forwards = sql_migration(__file__, ID, "0022_signed_in.sql", "0022_available_mitras.sql")
