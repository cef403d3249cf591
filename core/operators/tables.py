"""Operators, roles and what operators did (specification, Resources: control_center_users, roles; contract 8)."""

from piccolo.columns import Varchar
from piccolo.constraints import Check
from piccolo.table import Table

from core.storage import columns


class Role(Table, tablename="roles"):
    """A set of permissions: {"<area>": "read" | "write"}."""

    id = columns.identifier()
    name = columns.string(100, unique=True)
    permissions = columns.json(null=False, default="{}")
    created_at = columns.created()


class Operator(Table, tablename="control_center_users"):
    """Somebody who runs the service. The e-mail is stored in lower case."""

    id = columns.identifier()
    legacy_uid = columns.string(255, null=True)
    email = columns.string(255, unique=True)
    display_name = columns.string(100)
    role_id = columns.reference("Role")
    password_hash = columns.string(60, default="")
    failed_login_count = columns.number(default=0)
    lockout_until = columns.moment()
    disabled = columns.flag()
    created_at = columns.created()

    lower_case_email = Check("email = lower(email)")


class UnknownLogin(Table, tablename="unknown_operator_logins"):
    """Failed logins of e-mails that are nobody's: counted and locked like real ones, so that they look alike."""

    email_hash = Varchar(length=64, primary_key=True, default=None, null=False)
    failed_login_count = columns.number(default=0)
    lockout_until = columns.moment()
    updated_at = columns.created()


class OperatorAudit(Table, tablename="operator_audit_log"):
    """One row for each write by an operator."""

    id = columns.identifier()
    operator_id = columns.reference("Operator")
    action = columns.string(60)
    object_type = columns.string(40)
    object_id = columns.string(100)
    before = columns.json()
    after = columns.json()
    created_at = columns.created()
