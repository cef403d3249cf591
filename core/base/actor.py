"""The authenticated caller."""

import enum

import attrs

from core.base.field_types import Id


class UserType(enum.StrEnum):
    """The three kinds of user, as in `auth_sessions.user_type` and the claim `typ`."""

    CUSTOMER = "customer"
    MITRA = "mitra"
    OPERATOR = "operator"


@attrs.frozen(kw_only=True)
class Actor:
    """An authenticated user on one device (auth session).

    `ids` holds the user's own id and, for a customer, those of the anonymous customers who joined the account
    (docs/product.md#the-callers-ids).
    """

    user_type: UserType
    user_id: Id
    auth_session_id: str
    expires_at: int  # unix seconds of service time, from the access token
    ids: tuple[str, ...]
    permissions: dict[str, str] = attrs.field(factory=dict)
    has_totp: bool = False  # an operator with a second factor
    password_change_due: bool = False  # an operator whose password another person chose
    must_enrol: bool = False  # an operator who needs a second factor and has none

    def owns(self, user_id: str | None) -> bool:
        """Return whether `user_id` is one of the caller's ids; False for None."""
        return user_id is not None and user_id in self.ids
