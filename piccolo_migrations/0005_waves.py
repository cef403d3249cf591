"""Waves."""

from core.storage.sql_migration import sql_migration

ID = "0005"
forwards = sql_migration(__file__, ID, "0005_waves.sql")
