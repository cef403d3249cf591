"""Answers that several routes share."""

from typing import Any, Generic, TypeVar

import attrs
from litestar import Response
from litestar.response import Stream

from core.base.actor import UserType
from core.desk.people import CustomerView, MitraView, OperatorView
from core.privacy import export
from core.runtime.container import Runtime
from core.security.access import Tokens

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class CustomerTokens(Tokens):
    """The tokens of a sign-in or refresh, with the customer."""

    customer: CustomerView


@attrs.frozen(kw_only=True)
class MitraTokens(Tokens):
    """The tokens of a sign-in or refresh, with the mitra."""

    mitra: MitraView


@attrs.frozen(kw_only=True)
class OperatorTokens(Tokens):
    """The tokens of a sign-in or refresh, with the operator."""

    operator: OperatorView


@attrs.frozen(kw_only=True)
class SecondFactorQuestion:
    """The password is correct, but a code is needed: `login_token` and the code complete the sign-in within 5
    minutes."""

    totp_required: bool
    login_token: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class List(Generic[T]):
    """A list without pages: all items, or the requested part."""

    items: list[T]


def customer_tokens(tokens: Tokens, customer: CustomerView) -> CustomerTokens:
    """Return a customer's tokens with the customer."""
    return CustomerTokens(**attrs.asdict(tokens), customer=customer)


def mitra_tokens(tokens: Tokens, mitra: MitraView) -> MitraTokens:
    """Return a mitra's tokens with the mitra."""
    return MitraTokens(**attrs.asdict(tokens), mitra=mitra)


def operator_tokens(tokens: Tokens, operator: OperatorView) -> OperatorTokens:
    """Return an operator's tokens with the operator."""
    return OperatorTokens(**attrs.asdict(tokens), operator=operator)


def export_answer(runtime: Runtime, user_type: UserType, user_id: str) -> Response[Any]:
    """Return a file with everything that is stored of a customer or mitra, in parts."""
    answer: Any = Stream(
        export.parts(runtime, user_type, user_id),
        media_type="application/json",
        headers={"Content-Disposition": 'attachment; filename="sesi-export.json"', "Cache-Control": "no-store"},
    )
    return answer
