"""The view of what is due."""

from core.storage.sql_migration import sql_migration

ID = "0027"
forwards = sql_migration(__file__, ID, "0027_timed_work.sql")
