"""Who is asking."""

import enum

import attrs


class UserType(enum.StrEnum):
    """The three kinds of user, as in `auth_sessions.user_type` and the claim `typ`."""

    CUSTOMER = "customer"
    MITRA = "mitra"
    OPERATOR = "operator"


@attrs.frozen(kw_only=True)
class Actor:
    """An authenticated user, through one auth session (a device).

    `ids` are the caller's ids: a customer's own and those of anonymous rows that were merged into it (contract 3).
    """

    user_type: UserType
    user_id: str
    auth_session_id: str
    expires_at: int  # unix seconds of service time, from the access token
    ids: tuple[str, ...]
    permissions: dict[str, str] = attrs.field(factory=dict)
    has_totp: bool = False  # an operator with a second factor
    password_change_due: bool = False  # an operator whose password another person chose
    must_enrol: bool = False  # an operator whose role requires a second factor, and who has none

    def owns(self, user_id: str | None) -> bool:
        """Whether `user_id` is one of the caller's ids."""
        return user_id is not None and user_id in self.ids
