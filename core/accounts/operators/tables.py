"""The tables of operators, roles, sign-in attempts and the audit log."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.storage import columns
from core.storage.personal import Erase, Personal

SIGN_IN = Personal("operators' sign-in", "as long as the operator", Erase.KEEP, "not covered: disable the operator")
LOCKOUT = Personal(
    "lockout of guessed passwords; hashes only",
    "30 days after the last attempt; at most 100,000 rows of each",
    Erase.KEEP,
    "not covered",
)
AUDITED = Personal(
    "what operators did; a customer is named by id",
    "always",
    Erase.BY_HAND,
    "phone, e-mail, names, reasons and notes are blanked",
)


class Role(Table, tablename="roles", db=columns.ENGINE):
    """A set of permissions, as {"<area>": "read" | "write"}."""

    id = columns.identifier()
    name = columns.string(100, unique=True, personal=None)
    permissions = columns.json(null=False, default="{}", personal=None)
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
    legacy_uid = columns.string(255, null=True, personal=SIGN_IN)
    email = columns.string(255, unique=True, personal=SIGN_IN)
    display_name = columns.string(100, personal=SIGN_IN)
    role_id = columns.reference("Role")
    password_hash = columns.string(60, default="", personal=SIGN_IN)
    failed_login_count = columns.number(default=0)
    lockout_until = columns.moment()
    disabled = columns.flag()
    # Another person chose the password: the operator must replace it before anything else.
    password_change_due = columns.flag()
    # The second factor: its encrypted secret, the 30 s step of the last used code, and the hashes of unused recovery
    # codes.
    totp_secret = columns.text(null=True, personal=SIGN_IN)
    totp_last_step = columns.number(null=True)
    recovery_codes = columns.json(personal=SIGN_IN)
    # An encrypted secret that waits for its first code.
    totp_pending = columns.text(null=True, personal=SIGN_IN)
    totp_pending_until = columns.moment()
    # The hash of the one-time code with which an operator whose role requires a second factor may set one up.
    enrolment_code_hash = columns.string(64, null=True, personal=SIGN_IN)
    enrolment_code_until = columns.moment()
    created_at = columns.created()

    lower_case_email = Check("email = lower(email)")


class UnknownLogin(Table, tablename="unknown_operator_logins", db=columns.ENGINE):
    """Failed sign-ins with an unknown e-mail, from all addresses.

    They are counted and locked like those of known e-mails, so that an attacker can't tell the difference.
    """

    email_hash = columns.string_key(64, personal=LOCKOUT)
    failed_login_count = columns.number(default=0)
    lockout_until = columns.moment()
    updated_at = columns.created()


class SignInAddress(Table, tablename="operator_sign_in_addresses", db=columns.ENGINE):
    """Failed sign-ins with one e-mail from one address, or wrong passwords and codes of one auth session.

    `id` is a hash of both. `signed_in_at` is the last successful sign-in.
    """

    id = columns.string_key(64, personal=LOCKOUT)
    email_hash = columns.string(64, personal=LOCKOUT)
    failed_login_count = columns.number(default=0)
    lockout_until = columns.moment()
    signed_in_at = columns.moment()
    updated_at = columns.created()


class OperatorAudit(Table, tablename="operator_audit_log", db=columns.ENGINE):
    """One row for each write by an operator and for each reading of personal data. A trigger refuses changes."""

    id = columns.identifier()
    # Null: the command line, without the name of an operator.
    operator_id = columns.reference("Operator", null=True)
    action = columns.string(60, personal=None)
    object_type = columns.string(40, personal=None)
    object_id = columns.string(100, personal=AUDITED)
    before = columns.json(personal=AUDITED)
    after = columns.json(personal=AUDITED)
    created_at = columns.created()
