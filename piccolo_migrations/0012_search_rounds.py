"""Search rounds."""

from core.storage.sql_migration import sql_migration

ID = "0012"
forwards = sql_migration(__file__, ID, "0012_search_rounds.sql", "0012_lost_by.sql")
