"""Absent party."""

from core.storage.sql_migration import sql_migration

ID = "0018"
forwards = sql_migration(__file__, ID, "0018_absent_party.sql")
