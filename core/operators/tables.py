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
    # Its operators need a second factor.
    require_totp = columns.flag()
    created_at = columns.created()


class Operator(Table, tablename="control_center_users"):
    """A person who runs the service. The e-mail is stored in lower case.

    `failed_login_count` and `lockout_until` count failed sign-ins from all addresses. Times of the second factor are real.
    """

    id = columns.identifier()
    legacy_uid = columns.string(255, null=True)
    email = columns.string(255, unique=True)
    display_name = columns.string(100)
    role_id = columns.reference("Role")
    password_hash = columns.string(60, default="")
    failed_login_count = columns.number(default=0)
    lockout_until = columns.moment()
    disabled = columns.flag()
    # Another person chose the password: it is replaced before anything else.
    password_change_due = columns.flag()
    # The second factor: its sealed secret, the 30 s step of the last code that was used, hashes of unused recovery codes.
    totp_secret = columns.text(null=True)
    totp_last_step = columns.number(null=True)
    recovery_codes = columns.json()
    # A sealed secret that waits for its first code.
    totp_pending = columns.text(null=True)
    totp_pending_until = columns.moment()
    # The one-time code with which an operator whose role requires a second factor may begin one.
    enrolment_code_hash = columns.string(64, null=True)
    enrolment_code_until = columns.moment()
    created_at = columns.created()

    lower_case_email = Check("email = lower(email)")


class UnknownLogin(Table, tablename="unknown_operator_logins"):
    """Failed sign-ins with unknown e-mails, from all addresses: counted and locked like known ones, so that they look alike."""

    email_hash = Varchar(length=64, primary_key=True, default=None, null=False)
    failed_login_count = columns.number(default=0)
    lockout_until = columns.moment()
    updated_at = columns.created()


class SignInAddress(Table, tablename="operator_sign_in_addresses"):
    """Failed sign-ins with one e-mail from one address; `id` is a hash of both, `signed_in_at` the last good sign-in."""

    id = Varchar(length=64, primary_key=True, default=None, null=False)
    email_hash = columns.string(64)
    failed_login_count = columns.number(default=0)
    lockout_until = columns.moment()
    signed_in_at = columns.moment()
    updated_at = columns.created()


class OperatorAudit(Table, tablename="operator_audit_log"):
    """One row for each write by an operator, and for each reading of personal data. A trigger refuses changes."""

    id = columns.identifier()
    operator_id = columns.reference("Operator")
    action = columns.string(60)
    object_type = columns.string(40)
    object_id = columns.string(100)
    before = columns.json()
    after = columns.json()
    created_at = columns.created()
