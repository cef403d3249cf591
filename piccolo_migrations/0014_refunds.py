"""Refunds, payment channels and notes on failures."""

from core.storage.sql_migration import sql_migration

ID = "0014"
forwards = sql_migration(__file__, ID, "0014_refunds.sql", "0014_refund_columns.sql")
