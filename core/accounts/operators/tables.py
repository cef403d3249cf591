"""The tables of operators, roles, sign-in attempts and the audit log."""

from piccolo.columns import Varchar
from piccolo.constraints import Check
from piccolo.table import Table

from core.storage import columns


class Role(Table, tablename="roles", db=columns.ENGINE):
    """A set of permissions, as {"<area>": "read" | "write"}."""

    id = columns.identifier()
    name = columns.string(100, unique=True)
    permissions = columns.json(null=False, default="{}")
    # Operators with this role must have a second factor.
    require_totp = columns.flag()
    created_at = columns.created()


class Operator(Table, tablename="control_center_users", db=columns.ENGINE):
    """A person who runs the service. The e-mail is stored in lower case.

    `failed_login_count` counts consecutive failed sign-ins from all addresses; until `lockout_until` none is admitted
    (with `cc_login_lockout_scope` `address`: none from addresses that the operator has not used). Times of the second
    factor are real time.
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
    # Another person chose the password: the operator must replace it before anything else.
    password_change_due = columns.flag()
    # The second factor: its encrypted secret, the 30 s step of the last used code, and the hashes of unused recovery
    # codes.
    totp_secret = columns.text(null=True)
    totp_last_step = columns.number(null=True)
    recovery_codes = columns.json()
    # An encrypted secret that waits for its first code.
    totp_pending = columns.text(null=True)
    totp_pending_until = columns.moment()
    # The hash of the one-time code with which an operator whose role requires a second factor may set one up.
    enrolment_code_hash = columns.string(64, null=True)
    enrolment_code_until = columns.moment()
    created_at = columns.created()

    lower_case_email = Check("email = lower(email)")


class UnknownLogin(Table, tablename="unknown_operator_logins", db=columns.ENGINE):
    """Failed sign-ins with an unknown e-mail, from all addresses.

    They are counted and locked like those of known e-mails, so that an attacker can't tell the difference.
    """

    email_hash = Varchar(length=64, primary_key=True, default=None, null=False)
    failed_login_count = columns.number(default=0)
    lockout_until = columns.moment()
    updated_at = columns.created()


class SignInAddress(Table, tablename="operator_sign_in_addresses", db=columns.ENGINE):
    """Failed sign-ins with one e-mail from one address, or wrong passwords and codes of one auth session.

    `id` is a hash of both. `signed_in_at` is the last successful sign-in.
    """

    id = Varchar(length=64, primary_key=True, default=None, null=False)
    email_hash = columns.string(64)
    failed_login_count = columns.number(default=0)
    lockout_until = columns.moment()
    signed_in_at = columns.moment()
    updated_at = columns.created()


class OperatorAudit(Table, tablename="operator_audit_log", db=columns.ENGINE):
    """One row for each write by an operator and for each reading of personal data. A trigger refuses changes."""

    id = columns.identifier()
    # Null: the command line, without the name of an operator.
    operator_id = columns.reference("Operator", null=True)
    action = columns.string(60)
    object_type = columns.string(40)
    object_id = columns.string(100)
    before = columns.json()
    after = columns.json()
    created_at = columns.created()
