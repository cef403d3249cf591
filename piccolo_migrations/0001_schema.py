"""Create the tables and indexes."""

from core.storage.sql_migration import sql_migration

ID = "0001"
forwards = sql_migration(__file__, ID, "0001_tables.sql", "0001_indexes.sql")
