"""The fair clock: credits of session time, and the outages that wait for theirs."""

from core.storage.sql_migration import sql_migration

ID = "0013"
forwards = sql_migration(__file__, ID, "0013_fair_clock.sql", "0013_fair_clock_indexes.sql")
