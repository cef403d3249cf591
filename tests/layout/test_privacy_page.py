"""Each column says whether it holds personal data; docs/privacy.md, the erasure and the export are made from that."""

import pathlib
import re

from piccolo.columns import JSONB, Array, Bytea, Text, Varchar

from core.privacy import export
from core.settings import settings
from core.storage.personal import UNSAID, Erase, belongs, mark_of, personal_columns
from core.storage.table_list import declared_tables

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
FREE = (Varchar, Text, JSONB, Array, Bytea)
TABLES = {table._meta.tablename: table for table in declared_tables()}
MARKED = [(table, name, mark) for table in TABLES.values() for name, mark in personal_columns(table)]


def test_every_column_of_free_content_says_whether_it_is_personal() -> None:
    unsaid = []
    for name, table in TABLES.items():
        words = {vars(check).get("column") for check in table._meta.constraints}  # a CHECK lists their values
        unsaid += [
            f"{name}.{column._meta.name}"
            for column in table._meta.columns
            if isinstance(column, FREE) and mark_of(column) is UNSAID and column._meta.name not in words
        ]
    assert unsaid == [], "declare them with personal=…, or personal=None (core/storage/personal.py)"


def test_column_that_an_erasure_empties_may_be_null() -> None:
    assert [
        f"{table._meta.tablename}.{name}"
        for table, name, mark in MARKED
        if mark.erase is Erase.NULL and not table._meta.get_column_by_name(name)._meta.null
    ] == []


def test_what_is_erased_by_hand_is_said() -> None:
    assert [name for _, name, mark in MARKED if mark.erase is Erase.BY_HAND and mark.after == Erase.BY_HAND] == []


def test_every_exported_column_is_in_a_list_of_the_export() -> None:
    lists = [one for of_user in export.LISTS.values() for one in of_user.values()]
    listed = {(one.table, field) for one in lists for field in one.row.__annotations__}
    assert [
        f"{table._meta.tablename}.{name}"
        for table, name, mark in MARKED
        if mark.exported and (table, name) not in listed
    ] == []


def test_rows_belong_to_the_user_to_whom_their_references_lead() -> None:
    assert belongs(TABLES["customers"], "t") == "t.id = ANY($1::uuid[])"
    assert belongs(TABLES["payment_requests"], "t", "= $1") == "t.customer_id = $1"
    payments = "SELECT payment_requests.id FROM payment_requests WHERE payment_requests.customer_id = $1"
    assert belongs(TABLES["refunds"], "t", "= $1") == f"t.payment_request_id = ANY(ARRAY({payments}))"
    devices = "SELECT auth_sessions.id FROM auth_sessions WHERE auth_sessions.user_id = $1"
    assert belongs(TABLES["pushes"], "t", "= $1") == f"t.auth_session_id = ANY(ARRAY({devices}))"


def test_page_names_the_settings_that_exist() -> None:
    named = set(re.findall(r"`([A-Z][A-Z_]+)`", PAGE))
    assert named <= settings.names()
