"""Digests of chats, and receipts of completed sessions."""

from core.storage.sql_migration import sql_migration

ID = "0016"
forwards = sql_migration(__file__, ID, "0016_digests.sql", "0016_receipts.sql")
