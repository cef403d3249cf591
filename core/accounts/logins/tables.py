"""Tables of auth sessions, OTP requests and used identity tokens."""

import attrs
from piccolo.table import Table

from core.base.actor import UserType
from core.base.field_types import Party
from core.storage import columns
from core.storage.personal import Erase, Personal

SESSION_ENDS = "until `retention_ended_auth_sessions_days` after the end"
REFRESH = Personal("refresh; hashes of random values", SESSION_ENDS, Erase.KEEP, "stays, worthless")
DEVICE = Personal("list of devices: user agent, platform, app version", SESSION_ENDS, Erase.NULL, exported=True)
LOCALE = Personal("language of pushes", SESSION_ENDS, Erase.NULL, exported=True)
PUSH = Personal("pushes", SESSION_ENDS, Erase.NULL)
CODE = Personal(
    "codes and their limits",
    "`retention_otp_days`",
    Erase.BY_HAND,
    "deleted; those of the last hour keep their times and a keyed hash of the phone, so that the limits hold, "
    "and are deleted within the next hour",
)
CODE_FOR = attrs.evolve(CODE, exported=True)
USED_TOKEN = Personal("a token works once; a hash", "until the token expires", Erase.KEEP, "stays until then")


class AuthSession(Table, tablename="auth_sessions", db=columns.ENGINE):
    """One device of one user. Access tokens name it in `sid`."""

    id = columns.identifier()
    user_type = columns.string(16)
    user_id = columns.plain_id(null=False, owner=True)
    refresh_token_hash = columns.string(60, unique=True, personal=REFRESH)
    # The token before the current one, for retries within the retry window.
    previous_token_hash = columns.string(60, null=True, personal=REFRESH)
    rotated_at = columns.moment()
    # The number of rotations since the sign-in. Null: a process of an older version rotated last.
    refresh_generation = columns.big_number(null=True)
    # Recently used tokens before the previous one: {hash: time of use}.
    used_tokens = columns.json(personal=REFRESH)
    device_info = columns.json(personal=DEVICE)
    push_token = columns.string(255, null=True, personal=PUSH)
    push_token_at = columns.moment(personal=PUSH)
    # The language of the device's pushes: id or en. Null: the client has not named one.
    locale = columns.string(2, null=True, personal=LOCALE)
    created_at = columns.created()
    last_used_at = columns.moment()
    expires_at = columns.moment(null=False)
    # Until when (real time) an operator may do actions that need a fresh code of the second factor.
    stepped_up_until = columns.moment()
    revoked_at = columns.moment()
    # The auth session that the same device got when its anonymous customer signed in.
    replaced_by = columns.plain_id()
    # Real time of the revocation, for the processes that poll for changes.
    revoked_real_at = columns.moment()

    known_user_type = columns.words("user_type", UserType)


class OtpRequest(Table, tablename="otp_requests", db=columns.ENGINE):
    """One request for a code. Only the code's keyed hash is stored."""

    id = columns.identifier()
    phone = columns.string(20, personal=CODE_FOR)
    ip_address = columns.string(45, personal=CODE_FOR)
    user_type = columns.string(16)
    provider_reference = columns.string(255, null=True, personal=CODE)
    channel = columns.string(16, personal=None)
    code_hash = columns.string(64, null=True, personal=CODE)
    attempts = columns.number(default=0)
    # A request whose delivery failed does not count against the limits.
    delivery_failed = columns.flag()
    # The provider sends nothing to this number.
    number_refused = columns.flag()
    # Whether the phone or a token proved the caller to be known: half of the budget is for all others.
    known_phone = columns.flag()
    # The IPv4 /24 or IPv6 /48 of the address, for its share of the budget. Empty: the caller is known, or erased.
    network = columns.string(45, null=True, personal=CODE)
    # Real time from which another process may send a mitra's code; null: there is nothing to send.
    send_due_real_at = columns.moment()
    send_attempts = columns.number(default=0)
    # When a sign-in or an erasure named this request. Equal to created_at: another request's use ended it.
    used_at = columns.moment()
    created_at = columns.created()
    expires_at = columns.moment(null=False)

    known_user_type = columns.words("user_type", Party)


class UsedIdentityToken(Table, tablename="used_identity_tokens", db=columns.ENGINE):
    """An identity token that has signed a customer in. The row is deleted once the token itself has expired."""

    id = columns.identifier()
    digest = columns.string(64, unique=True, personal=USED_TOKEN)
    auth_session_id = columns.plain_id(null=False)
    used_at = columns.moment(null=False)
    expires_real_at = columns.moment(null=False)
