"""The four cases of a customer's sign-in with a proven phone or identity (docs/product.md#merging-accounts)."""

import enum
from typing import Literal

import attrs

from core.base.errors import DomainError, Kind, Repeat
from core.base.languages import Text


class DisplayNameRequired(DomainError):
    """The customer has no display name. Mitras must know how to address them."""

    code = "DISPLAY_NAME_REQUIRED"
    message = Text(en="Enter your name first.", id="Isi nama Anda dahulu.")
    repeat = Repeat.LATER
    advice = "Ask for the name, save it, and repeat the request."


class VerifiedAccountRequired(DomainError):
    """The customer is anonymous. They sign in by phone or identity first, and link others to that account."""

    kind = Kind.FORBIDDEN
    code = "VERIFIED_ACCOUNT_REQUIRED"
    message = Text(en="Sign in first.", id="Silakan masuk dahulu.")
    repeat = Repeat.LATER
    advice = "Let the customer sign in by phone or identity, then repeat the request."


class IdentityInUse(DomainError):
    """Another account has this identity. Accounts are never merged."""

    code = "IDENTITY_IN_USE"
    message = Text(en="Another account uses this sign-in.", id="Cara masuk ini dipakai akun lain.")
    advice = "Say that the identity belongs to another account; offer to sign in to that one."


class PhoneInUse(DomainError):
    """Another account has this phone number. Accounts are never merged."""

    code = "PHONE_IN_USE"
    message = Text(en="Another account uses this phone number.", id="Nomor telepon ini dipakai akun lain.")
    advice = "Say that the number belongs to another account; offer to sign in to that one, with a new code."


class LastSignInMethod(DomainError):
    """Without this phone, identity or device the customer would have no way into the account any longer."""

    code = "LAST_SIGN_IN_METHOD"
    message = Text(en="This is the last way to sign in.", id="Ini cara masuk yang terakhir.")
    advice = (
        "A customer links a phone or another identity first. An operator asks whether the account may be lost, and "
        "repeats the call with `confirm`."
    )


class AccountBlocked(DomainError):
    """An operator has blocked the customer's account: it can't pay, extend or search, nor give up a phone or identity.

    `details.until` is when the block ends; null: when an operator lifts it.
    """

    kind = Kind.FORBIDDEN
    code = "ACCOUNT_BLOCKED"
    message = Text(
        en="Your account can't start chats at the moment. Contact support.",
        id="Akun Anda tidak dapat memulai chat saat ini. Hubungi layanan bantuan.",
    )
    repeat = Repeat.LATER
    advice = "Show until when, and the support contacts. History and payments stay readable."


class IdentityKind(enum.StrEnum):
    """The kinds of proven identities; each value is a column of `customers`."""

    PHONE = "phone"
    IDENTITY_A = "identity_a_sub"
    IDENTITY_B = "identity_b_sub"


Provider = Literal["a", "b"]
KINDS: dict[Provider, IdentityKind] = {"a": IdentityKind.IDENTITY_A, "b": IdentityKind.IDENTITY_B}


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
