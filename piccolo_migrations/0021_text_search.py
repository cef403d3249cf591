"""Texts as searches compare them: in NFC and without case."""

from core.storage.sql_migration import sql_migration

ID = "0021"
forwards = sql_migration(__file__, ID, "0021_text_search.sql", "0021_text_search_indexes.sql")
