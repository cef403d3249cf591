"""Shapes that several routes answer with."""

from typing import Generic, TypeVar

import attrs

from core.logins.issued import Tokens
from core.reads.people import CustomerView, MitraView, OperatorView

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class CustomerTokens(Tokens):
    """The token response of contract 3, for a customer."""

    customer: CustomerView


@attrs.frozen(kw_only=True)
class MitraTokens(Tokens):
    """The token response of contract 3, for a mitra."""

    mitra: MitraView


@attrs.frozen(kw_only=True)
class OperatorTokens(Tokens):
    """The token response of contract 3, for an operator."""

    operator: OperatorView


@attrs.frozen(kw_only=True)
class SecondFactorQuestion:
    """The password was right; `login_token` and a code complete the sign-in within 5 minutes."""

    totp_required: bool
    login_token: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class List(Generic[T]):
    """Everything there is, or the part that was asked for."""

    items: list[T]


def customer_tokens(tokens: Tokens, customer: CustomerView) -> CustomerTokens:
    """Return a customer's token response."""
    return CustomerTokens(**attrs.asdict(tokens), customer=customer)


def mitra_tokens(tokens: Tokens, mitra: MitraView) -> MitraTokens:
    """Return a mitra's token response."""
    return MitraTokens(**attrs.asdict(tokens), mitra=mitra)


def operator_tokens(tokens: Tokens, operator: OperatorView) -> OperatorTokens:
    """Return an operator's token response."""
    return OperatorTokens(**attrs.asdict(tokens), operator=operator)
