"""Piccolo's engine and registry, for `piccolo` on the command line and for the migrations (PICCOLO_CONF)."""

import os

from piccolo.conf.apps import AppRegistry
from piccolo.engine.postgres import PostgresEngine

DB = PostgresEngine(config={"dsn": os.environ.get("DATABASE_URL", "")}, log_queries=False)
APP_REGISTRY = AppRegistry(apps=["core.storage.piccolo_app"])
