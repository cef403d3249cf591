"""The networks of requests for codes, and whether an invoice is of an account that paid before."""

from core.storage.sql_migration import sql_migration

ID = "0026"
forwards = sql_migration(__file__, ID, "0026_code_shares.sql")
