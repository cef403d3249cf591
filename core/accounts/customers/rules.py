"""The four cases of a customer's sign-in with a proven phone or identity (docs/product.md#merging-accounts)."""

import enum

import attrs

from core.base.errors import DomainError, Repeat
from core.base.languages import Text


class DisplayNameRequired(DomainError):
    """The customer has no display name. Mitras must know how to address them."""

    code = "DISPLAY_NAME_REQUIRED"
    message = Text(en="Enter your name first.", id="Isi nama Anda dahulu.")
    repeat = Repeat.LATER
    advice = "Ask for the name, save it, and repeat the request."


class IdentityKind(enum.StrEnum):
    """The kinds of proven identities; each value is a column of `customers`."""

    PHONE = "phone"
    IDENTITY_A = "identity_a_sub"
    IDENTITY_B = "identity_b_sub"


@attrs.frozen(kw_only=True)
class Identity:
    """A proven identity: a phone number, or a subject at an identity provider with its verified e-mail."""

    kind: IdentityKind
    value: str
    email: str | None = None


class SignInCase(enum.Enum):
    """The result of a sign-in."""

    UPGRADED = "upgraded"  # the anonymous row gains the identity and keeps its id, name and data
    JOINED = "joined"  # the identity belongs to a customer: the anonymous row keeps its data and points to them
    CREATED = "created"  # no anonymous caller and a new identity: a new customer without a name
    KNOWN = "known"  # no anonymous caller and a known identity: the customer comes back


def resolve(*, known: bool, anonymous: bool) -> SignInCase:
    """Return the result of a sign-in.

    `known`: a customer has the identity. `anonymous`: the caller is an anonymous customer who has not joined an
    account.
    """
    if known:
        return SignInCase.JOINED if anonymous else SignInCase.KNOWN
    return SignInCase.UPGRADED if anonymous else SignInCase.CREATED
