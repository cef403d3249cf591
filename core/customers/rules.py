"""Who a customer is once a phone or an identity is proven: the four cases (specification, Authentication-related, rules 1 to 5)."""

import enum

import attrs

from core.base.errors import DomainError
from core.base.languages import Text


class DisplayNameRequired(DomainError):
    """The customer has no display name. Mitras must know how to address them."""

    code = "DISPLAY_NAME_REQUIRED"
    message = Text(en="Enter your name first.", id="Isi nama Anda dahulu.")


class IdentityKind(enum.StrEnum):
    """What proves who a customer is; each is a column of `customers`."""

    PHONE = "phone"
    IDENTITY_A = "identity_a_sub"
    IDENTITY_B = "identity_b_sub"


@attrs.frozen(kw_only=True)
class Identity:
    """Something that was proven: a phone number, or a subject at an identity provider with its verified e-mail."""

    kind: IdentityKind
    value: str
    email: str | None = None


class Case(enum.Enum):
    """What a sign-in comes to."""

    UPGRADED = "upgraded"  # the anonymous row gains the identity: same id, same name, nothing moves
    JOINED = "joined"  # the identity has a customer already: the anonymous row keeps its data and points to it
    CREATED = "created"  # nobody was anonymous, nobody has the identity: a new customer without a name
    KNOWN = "known"  # the customer comes back


def resolve(*, known: bool, anonymous: bool) -> Case:
    """Say what a sign-in comes to: whether a customer has the identity, and whether a living anonymous one asks."""
    if known:
        return Case.JOINED if anonymous else Case.KNOWN
    return Case.UPGRADED if anonymous else Case.CREATED
