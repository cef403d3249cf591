"""Drop functions that only versions before 0.2 called, and validate two constraints."""

from core.storage.sql_migration import sql_migration

ID = "0004"
forwards = sql_migration(__file__, ID, "0004_after_0_2.sql", "0004_validate.sql")
