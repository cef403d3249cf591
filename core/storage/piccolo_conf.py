"""Piccolo's engine and registry, for `piccolo` on the command line and for the migrations (PICCOLO_CONF)."""

import os

from piccolo.conf.apps import AppRegistry
from piccolo.engine.postgres import PostgresEngine

# A statement that waits for a lock on a table makes all later ones on that table wait behind it: sign-in and refresh, say.
# So each statement of a migration gives up after this time, and `sesi migrate` tries again.
LOCK_TIMEOUT = "2s"
DB = PostgresEngine(
    config={"dsn": os.environ.get("DATABASE_URL", ""), "server_settings": {"lock_timeout": LOCK_TIMEOUT}},
    log_queries=False,
)
APP_REGISTRY = AppRegistry(apps=["core.storage.piccolo_app"])
