"""docs/privacy.md names every table, and every column that can hold a person's data."""

import pathlib
import re

from piccolo.columns import JSONB, Array, Bytea, Text, Varchar

from core.settings import settings
from core.storage.piccolo_app import APP_CONFIG

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
FREE = (Varchar, Text, JSONB, Array, Bytea)
# Tables without a column of free content, and those whose content is the service's.
IMPERSONAL = {
    "app_config", "cause_tags", "chat_request_notifications", "cluster_leases", "customer_transactions",
    "ledger_audit_results", "mitra_online_logs", "mitra_online_status", "outages",
    "pricing_promotions", "pricing_tiers", "roles", "search_rounds", "service_clock", "service_processes",
    "session_extensions", "session_presence",
    "wait_estimates", "wait_promises",
}  # fmt: skip
# Columns with a fixed set of words, by the name that they have in every table.
WORDS = {
    "action", "cause_tag", "change_kind", "channel", "ended_by", "event", "heartbeat_channel", "key", "kind", "mode",
    "object_type", "operator_action", "processing_result", "recipient_type", "requested_by", "response", "sender_type",
    "source", "status", "type", "user_type",
}  # fmt: skip


def rows() -> dict[str, set[str]]:
    """Return table -> the columns that the page names."""
    section = PAGE.partition("## What is stored")[2].partition("\n## ")[0]
    found: dict[str, set[str]] = {}
    for line in section.splitlines():
        cells = line.split("|")
        if line.startswith("| `"):
            for table in re.findall(r"`(\w+)`", cells[1]):
                found.setdefault(table, set()).update(re.findall(r"`(\w+)`", cells[2]))
    return found


def test_page_names_every_table_that_is_not_impersonal() -> None:
    tables = {table._meta.tablename for table in APP_CONFIG.table_classes}
    assert rows().keys() | IMPERSONAL == tables
    assert rows().keys() & IMPERSONAL == set()


def test_page_names_every_column_of_free_content() -> None:
    missing = []
    for table in APP_CONFIG.table_classes:
        name = table._meta.tablename
        if name in IMPERSONAL:
            continue
        for column in table._meta.columns:
            listed = column._meta.name in rows()[name]
            if isinstance(column, FREE) and not listed and column._meta.name not in WORDS:
                missing.append(f"{name}.{column._meta.name}")
    assert missing == []


def test_page_names_no_column_that_does_not_exist() -> None:
    columns = {table._meta.tablename: {c._meta.name for c in table._meta.columns} for table in APP_CONFIG.table_classes}
    unknown = {name: named - columns[name] for name, named in rows().items()}
    assert not any(
        table
        for name, table in unknown.items()
        if name not in ("unknown_operator_logins", "operator_sign_in_addresses")
    )


def test_page_names_the_settings_that_exist() -> None:
    named = set(re.findall(r"`([A-Z][A-Z_]+)`", PAGE))
    assert named <= settings.names()
