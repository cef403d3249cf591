"""Shapes that several routes answer with."""

from typing import Any

import attrs

from core.logins.issued import Tokens


def token_answer(tokens: Tokens, **user: Any) -> dict[str, Any]:
    """The token response of contract 3, with the user beside it."""
    return {**attrs.asdict(tokens), **user}
