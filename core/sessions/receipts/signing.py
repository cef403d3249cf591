"""Sign receipts with Ed25519, and verify them (docs/fairness.md#receipt)."""

import base64
import binascii
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.sessions.receipts.rules import Receipt, SignedReceipt, canonical


class NotValid(Exception):
    """The receipt can't be trusted. The message says why."""


@attrs.frozen(kw_only=True)
class Jwk:
    """A public key of receipts (RFC 8037): `x` is the key in base64url."""

    kty: str = "OKP"
    crv: str = "Ed25519"
    kid: str
    x: str


@attrs.frozen(kw_only=True)
class JwkSet:
    """The public keys of all receipts, also of those that older keys have signed."""

    keys: list[Jwk]


class ReceiptKeys:
    """The keys of this service: pairs of key id and seed. The first one signs."""

    def __init__(self, pairs: Sequence[tuple[str, bytes]]) -> None:
        self._keys = [(kid, Ed25519PrivateKey.from_private_bytes(seed)) for kid, seed in pairs]

    def sign(self, text: bytes) -> tuple[str, str]:
        """Return (the id of the key, the signature of a text in base64url)."""
        kid, key = self._keys[0]
        return kid, _base64url(key.sign(text))

    def compact(self, signed: SignedReceipt) -> str | None:
        """Return a receipt as a JWS in the compact form (RFC 7515), by the key that signed it; None if that is gone.

        Ed25519 gives the same bytes each time, so a receipt has one form.
        """
        key = next((key for kid, key in self._keys if kid == signed.key_id), None)
        if key is None:
            return None
        head = msgspec.json.encode({"alg": "EdDSA", "kid": signed.key_id})
        text = f"{_base64url(head)}.{_base64url(canonical(signed.receipt))}"
        return f"{text}.{_base64url(key.sign(text.encode()))}"

    def jwk_set(self) -> JwkSet:
        """Return the public keys."""
        return JwkSet(keys=[Jwk(kid=kid, x=_base64url(key.public_key().public_bytes_raw())) for kid, key in self._keys])


@functools.cache
def keys_of(pairs: tuple[tuple[str, bytes], ...]) -> ReceiptKeys:
    """Return the keys of the setting RECEIPT_SIGNING_KEYS."""
    return ReceiptKeys(pairs)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes_of(text: str, *, size: int) -> bytes:
    """Return the bytes of base64url without padding. Raises ValueError."""
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(text) from error
    if len(found) != size or _base64url(found) != text:
        raise ValueError(text)
    return found


def verify(document: bytes, keys: JwkSet) -> Receipt:
    """Return the receipt of a document as the service sends it. Raises NotValid."""
    try:
        signed = msgspec.json.decode(document, type=dict[str, Any])
        unknown = set(signed) - {field.name for field in attrs.fields(SignedReceipt)}
        of_receipt = set(signed.get("receipt") or ()) - {field.name for field in attrs.fields(Receipt)}
        made = msgspec.convert(signed, SignedReceipt)
        signature = _bytes_of(made.signature, size=64)
    except (ValueError, TypeError) as error:
        raise NotValid(f"this is no receipt: {error}") from error
    if unknown or of_receipt:
        raise NotValid(f"this is no receipt: unknown fields {', '.join(sorted(unknown | of_receipt))}")
    known = public_keys(keys)
    if made.key_id not in known:
        raise NotValid(f"the key {made.key_id!r} is not one of the known keys: {', '.join(sorted(known)) or 'none'}")
    try:
        known[made.key_id].verify(signature, canonical(made.receipt))
    except InvalidSignature as error:
        raise NotValid("the signature does not fit: the receipt was changed, or another service signed it") from error
    return made.receipt


def public_keys(keys: JwkSet) -> Mapping[str, Ed25519PublicKey]:
    """Return the keys by id, without those of other algorithms. Raises NotValid."""
    try:
        return {
            key.kid: Ed25519PublicKey.from_public_bytes(_bytes_of(key.x, size=32))
            for key in keys.keys
            if (key.kty, key.crv) == ("OKP", "Ed25519")
        }
    except ValueError as error:
        raise NotValid("a key of the key set is not an Ed25519 key") from error
