"""Piccolo's engine and registry, for the `piccolo` command and the migrations (PICCOLO_CONF)."""

import os

from piccolo.conf.apps import AppRegistry

from core.storage.columns import QuietEngine
from core.storage.migrations import LOCK_TIMEOUT

DB = QuietEngine(
    config={"dsn": os.environ.get("DATABASE_URL", ""), "server_settings": {"lock_timeout": LOCK_TIMEOUT}},
    log_queries=False,
)
APP_REGISTRY = AppRegistry(apps=["core.storage.piccolo_app"])
