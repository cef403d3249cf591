"""What the parent of forked processes imports: the whole service, once for each worker of the tests."""

import gc

import litestar.plugins.pydantic

import api.server
import jobs.server
import realtime.server
import tools.cli

__all__ = ["api", "jobs", "litestar", "realtime", "tools"]
gc.collect()
gc.freeze()  # children neither look through these objects nor copy their pages
