"""Keys derived from the secrets in JWT_SECRETS, one for each purpose (HKDF, RFC 5869).

Access tokens are signed with the secrets themselves. Every other purpose has a separate key, so that a value made for
one purpose is worthless for another. The first secret makes new values; all of them verify.
"""

import enum
import hashlib
import hmac
from collections.abc import Iterable

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32
SHOWN_DIGITS = 16  # 64 bits: enough to tell accounts apart in a log


class Purpose(enum.StrEnum):
    """The purposes of keys. A purpose's value is part of its keys: never change one."""

    REFRESH_SEAL = "sesi refresh seal"
    CODE = "sesi code"
    CODE_MAKER = "sesi code maker"
    LOGGED_ACCOUNT = "sesi logged account"
    IDENTITY_TOKEN = "sesi identity token"  # noqa: S105 - a name
    KEYED_SIGN_IN = "sesi keyed sign-in"
    LOGIN_TOKEN = "sesi operator login token"  # noqa: S105 - a name
    TOTP_SECRET = "sesi operator totp secret"  # noqa: S105 - a name
    DEVELOPMENT_IDENTITY = "sesi development identity"


def derive(secret: bytes, purpose: Purpose) -> bytes:
    """Derive the 32-byte key of a secret for one purpose."""
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=purpose.value.encode()).derive(secret)


class Keys:
    """The keys of this process. The first key of a list makes new values; all of them verify.

    `refresh` and `codes` end with the secrets themselves: earlier versions sealed refresh tokens and hashed codes with
    them.
    """

    def __init__(self, secrets: Iterable[bytes]) -> None:
        self._secrets = list(secrets)
        self.refresh = [*self._derived(Purpose.REFRESH_SEAL), *self._secrets]
        self.codes = [*self._derived(Purpose.CODE), *self._secrets]
        self.code_maker = derive(self._secrets[0], Purpose.CODE_MAKER)
        self.identity_tokens = self._derived(Purpose.IDENTITY_TOKEN)
        self.keyed_sign_ins = self._derived(Purpose.KEYED_SIGN_IN)
        self.login_tokens = self._derived(Purpose.LOGIN_TOKEN)
        self.totp_secrets = self._derived(Purpose.TOTP_SECRET)
        self.development_identity = derive(self._secrets[0], Purpose.DEVELOPMENT_IDENTITY)
        self._accounts = derive(self._secrets[0], Purpose.LOGGED_ACCOUNT)

    def _derived(self, purpose: Purpose) -> list[bytes]:
        return [derive(secret, purpose) for secret in self._secrets]

    def account_hash(self, account: str) -> str:
        """Return a keyed hash of a phone number, subject or e-mail for the log, 16 hex digits.

        An account keeps its hash until the first secret changes. Without the secret, numbers can't be tested against
        it.
        """
        return hmac.new(self._accounts, account.encode(errors="replace"), hashlib.sha256).hexdigest()[:SHOWN_DIGITS]
