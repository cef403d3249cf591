"""What the parent of forked processes imports: the whole service, once for each worker of the tests."""

import gc

import asyncpg.connection
import litestar.plugins.pydantic

import api.server
import jobs.server
import realtime.server
import tests.access.routes  # it registers the routes of both applications (api/apps.py)
import tools.cli

__all__ = ["api", "jobs", "litestar", "realtime", "tests", "tools"]
# Most tests end with an audit of the ledger. Its statements and those of the routes are more than the 100 that asyncpg
# keeps prepared for a connection: without this, PostgreSQL would plan most of them again for every test.
kept = asyncpg.connection.connect.__kwdefaults__
assert kept is not None
assert kept["statement_cache_size"] == 100
kept["statement_cache_size"] = 1_000
gc.collect()
gc.freeze()  # children neither look through these objects nor copy their pages
