"""Leases of the cluster's single tasks, and the results of the ledger audits."""

from core.storage.sql_migration import sql_migration

ID = "0007"
forwards = sql_migration(__file__, ID, "0007_audits.sql")
