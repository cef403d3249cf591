"""The tokens that a sign-in returns (docs/protocol.md#sign-in)."""

from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class Tokens:
    """The token response without the user. `expires_in` is seconds of service time."""

    access_token: str = attrs.field(repr=False)
    refresh_token: str = attrs.field(repr=False)
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - the scheme's name
    expires_in: int
