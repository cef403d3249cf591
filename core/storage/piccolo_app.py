"""Piccolo's app configuration: the tables, and the folder of the migrations.

Only the `piccolo` command and the migrations import it: `piccolo.conf` imports a code formatter, a tenth of a second of a
process's start.
"""

import pathlib

from piccolo.conf.apps import AppConfig

from core.storage.table_list import declared_tables

APP_CONFIG = AppConfig(
    app_name="sesi",
    migrations_folder_path=str(pathlib.Path(__file__).parents[2] / "piccolo_migrations"),
    table_classes=list(declared_tables()),
    migration_dependencies=[],
)
