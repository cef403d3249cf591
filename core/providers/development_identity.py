"""An identity provider for development: it signs a token for every e-mail address (docs/product.md#identity-providers).

It never exists in production. All api processes derive the same key from JWT_SECRETS, so each accepts the tokens of the
others, also after a restart.
"""

import datetime as dt
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

AUDIENCE = "sesi-development"
KEY_ID = "development"
ALGORITHM = "ES256"  # RSA keys can't be derived from a secret
LIVES = dt.timedelta(minutes=10)  # real time, like the lifetime of other providers' tokens


class DevelopmentIdentity:
    """The key and the tokens of the development provider A or B. `secret` has at least 32 random bytes."""

    def __init__(self, letter: str, *, secret: bytes) -> None:
        scalar = int.from_bytes(secret, "big") % (ec.SECP256R1().group_order - 1) + 1
        self._private = ec.derive_private_key(scalar, ec.SECP256R1())
        self.issuer = f"sesi-development-identity-{letter}"
        public = json.loads(jwt.get_algorithm_by_name(ALGORITHM).to_jwk(self._private.public_key()))
        self.published: dict[str, Any] = {**public, "kid": KEY_ID, "alg": ALGORITHM, "use": "sig"}  # a JWK
        self._key = jwt.PyJWK.from_dict(self.published)

    async def get(self, key_id: str) -> jwt.PyJWK | None:
        """Return the public key, None for another key id."""
        return self._key if key_id == KEY_ID else None

    def token(self, *, token_id: str, email: str, nonce: str | None, now: dt.datetime) -> str:
        """Return a signed identity token whose subject is the e-mail address. `now` is real time."""
        claims = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": email,
            "jti": token_id,  # otherwise two tokens of a second would be one token, used twice
            "iat": int(now.timestamp()),
            "exp": int((now + LIVES).timestamp()),
            "email": email,
            "email_verified": True,
        }
        if nonce is not None:
            claims["nonce"] = nonce
        return jwt.encode(claims, self._private, algorithm=ALGORITHM, headers={"kid": KEY_ID})
