"""The networks of requests for codes, whether the account of an invoice paid before, and the order of pushes."""

from core.storage.sql_migration import sql_migration

ID = "0026"
forwards = sql_migration(__file__, ID, "0026_code_shares.sql")
