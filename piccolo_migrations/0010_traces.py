"""Add the traceparents of payment requests and sessions."""

from core.storage.sql_migration import sql_migration

ID = "0010"
forwards = sql_migration(__file__, ID, "0010_traces.sql")
