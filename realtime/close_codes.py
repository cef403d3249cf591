"""Every close code and what the client should do (contract 7)."""

import attrs


@attrs.frozen(kw_only=True)
class CloseCode:
    """What a close code means. `reconnect`: whether an app tries again by itself; `then` says how, or what else to do."""

    code: int
    meaning: str
    reconnect: bool
    then: str


NOT_TEXT = 1007
TOO_LARGE = 1009
GOING_AWAY = 1012
NOT_AUTHENTICATED = 4401
REVOKED = 4403
TOO_SLOW = 4408
TOO_MANY_SOCKETS = 4409
TOO_FAST = 4429

ALL = (
    CloseCode(
        code=NOT_TEXT,
        meaning="A text frame was not UTF-8.",
        reconnect=True,
        then="Reconnect and sync; do not send that frame again.",
    ),
    CloseCode(
        code=TOO_LARGE,
        meaning="A frame was larger than 16 KiB.",
        reconnect=True,
        then="Reconnect and sync; do not send that frame again.",
    ),
    CloseCode(
        code=GOING_AWAY,
        meaning="The process stops, can't read your state right now, or has a new snapshot for you.",
        reconnect=True,
        then="Reconnect after a random 0 to 5 s, and sync.",
    ),
    CloseCode(
        code=NOT_AUTHENTICATED,
        meaning="No good `auth` frame came in time, the token has expired, or a later one was another user's.",
        reconnect=False,
        then="Refresh the token first, then connect.",
    ),
    CloseCode(
        code=REVOKED,
        meaning="The auth session has ended: logout, a removed device, a reused refresh token.",
        reconnect=False,
        then="Sign in again.",
    ),
    CloseCode(
        code=TOO_SLOW,
        meaning="Two pings were not answered, or too much waits to be read.",
        reconnect=True,
        then="Reconnect and sync.",
    ),
    CloseCode(
        code=TOO_MANY_SOCKETS,
        meaning="A newer socket of yours took the place of this one.",
        reconnect=False,
        then="Stay away: the newer socket goes on.",
    ),
    CloseCode(
        code=TOO_FAST,
        meaning="More frames came than the rate allows.",
        reconnect=True,
        then="Reconnect, sync, and send less.",
    ),
)
