"""The delivery trail of events."""

from core.storage.sql_migration import sql_migration

ID = "0015"
forwards = sql_migration(__file__, ID, "0015_delivery_trail.sql")
