"""Changes of one domain in which domains above it take part, in the same transaction.

docs/architecture.md#transactions says how.
"""

from collections.abc import Sequence
from typing import Literal

import attrs

from core.base.actor import UserType

SignInMethod = Literal["phone", "a", "b"]


@attrs.frozen(kw_only=True)
class Renaming:
    """The names of customers or mitras (`side`) may change. The transaction holds the locks of their rows."""

    party_ids: Sequence[str]
    side: UserType


@attrs.frozen(kw_only=True)
class MitraSignedOut:
    """Auth sessions of a mitra ended, perhaps the last one. The transaction holds the lock of the mitra's row."""

    mitra_id: str


@attrs.frozen(kw_only=True)
class SignInMethodChanged:
    """A verified customer has linked or unlinked a phone or an identity.

    `given_up` is the keyed hash of the phone or identity that they no longer have; None without one.
    """

    customer_id: str
    method: SignInMethod
    linked: bool
    given_up: str | None


@attrs.frozen(kw_only=True)
class Joined:
    """An anonymous customer has joined an account. The transaction holds the locks of both rows."""

    account_id: str


Change = Renaming | MitraSignedOut | SignInMethodChanged | Joined
