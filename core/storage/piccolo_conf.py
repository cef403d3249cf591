"""Piccolo's engine and registry, for the `piccolo` command and the migrations (PICCOLO_CONF)."""

import os

from piccolo.conf.apps import AppRegistry
from piccolo.engine.postgres import PostgresEngine

# A migration that waits for a table lock blocks every later statement on that table, such as sign-in and refresh. So
# each statement of a migration gives up after this time, and `sesi migrate` retries.
LOCK_TIMEOUT = "2s"
DB = PostgresEngine(
    config={"dsn": os.environ.get("DATABASE_URL", ""), "server_settings": {"lock_timeout": LOCK_TIMEOUT}},
    log_queries=False,
)
APP_REGISTRY = AppRegistry(apps=["core.storage.piccolo_app"])
