"""Blanked sessions, and indexes for the sweeps of retention."""

from core.storage.sql_migration import sql_migration

ID = "0008"
forwards = sql_migration(__file__, ID, "0008_retention.sql", "0008_message_texts.sql", "0008_retention_indexes.sql")
