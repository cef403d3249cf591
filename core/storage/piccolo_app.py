"""Piccolo's app configuration: the tables of every concept, and the folder of the migrations."""

import pathlib

from piccolo.conf.apps import AppConfig, table_finder

CONCEPTS = [
    "accounts.blocks",
    "accounts.customers",
    "accounts.logins",
    "accounts.mitras",
    "accounts.operators",
    "cluster.leases",
    "cluster.outages",
    "config",
    "deliveries",
    "deliveries.pushes",
    "desk.audits",
    "erasures",
    "idempotency",
    "pairing",
    "pairing.promises",
    "payments",
    "payments.failures",
    "payments.ledger",
    "payments.pricing",
    "payments.refunds",
    "payments.webhooks",
    "sessions",
    "sessions.absences",
    "sessions.extensions",
    "sessions.messages",
    "sessions.receipts",
    "sessions.reports",
]

APP_CONFIG = AppConfig(
    app_name="sesi",
    migrations_folder_path=str(pathlib.Path(__file__).parents[2] / "piccolo_migrations"),
    table_classes=table_finder([f"core.{concept}.tables" for concept in CONCEPTS]),
    migration_dependencies=[],
)
