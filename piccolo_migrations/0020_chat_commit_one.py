"""A database function that stores one chat message."""

from core.storage.sql_migration import sql_migration

ID = "0020"
forwards = sql_migration(__file__, ID, "0020_chat_commit_one.sql")
