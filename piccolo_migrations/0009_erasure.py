"""Erasure of users' personal data."""

from core.storage.sql_migration import sql_migration

ID = "0009"
forwards = sql_migration(__file__, ID, "0009_erasure.sql")
