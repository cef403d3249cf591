"""Piccolo's app configuration: the tables of every concept, and the folder of the migrations."""

import pathlib

from piccolo.conf.apps import AppConfig, table_finder

CONCEPTS = [
    "absences",
    "audits",
    "config",
    "customers",
    "deliveries",
    "erasures",
    "extensions",
    "idempotency",
    "leases",
    "ledger",
    "logins",
    "messages",
    "mitras",
    "operators",
    "outages",
    "pairing",
    "pairing_failures",
    "payments",
    "pricing",
    "promises",
    "pushes",
    "receipts",
    "refunds",
    "sessions",
    "webhooks",
]

APP_CONFIG = AppConfig(
    app_name="sesi",
    migrations_folder_path=str(pathlib.Path(__file__).parents[2] / "piccolo_migrations"),
    table_classes=table_finder([f"core.{concept}.tables" for concept in CONCEPTS]),
    migration_dependencies=[],
)
