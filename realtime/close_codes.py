"""Every close code and what the client should do (contract 7)."""

import attrs


@attrs.frozen(kw_only=True)
class CloseCode:
    """What a close code means. `reconnect`: whether an app connects again without its user; `then` says what the app does."""

    code: int
    meaning: str
    reconnect: bool
    then: str


CONNECTION_LOST = 1006  # never sent: what a client's library reports when there was no close frame
NOT_TEXT = 1007
TOO_LARGE = 1009
GOING_AWAY = 1012
TRY_LATER = 1013
NOT_AUTHENTICATED = 4401
REVOKED = 4403
TOO_SLOW = 4408
TOO_MANY_SOCKETS = 4409
TOO_FAST = 4429

# The service cut the client off: one line in the log, and these also count as refused by a limit of that name.
REFUSALS = frozenset({NOT_TEXT, TOO_LARGE, TRY_LATER, NOT_AUTHENTICATED, REVOKED, TOO_SLOW, TOO_MANY_SOCKETS, TOO_FAST})
LIMITS = {
    TOO_LARGE: "socket_frame_bytes",
    TOO_SLOW: "socket_unread",
    TOO_MANY_SOCKETS: "sockets_per_user",
    TOO_FAST: "socket_frames",
}

ALL = (
    CloseCode(
        code=CONNECTION_LOST,
        meaning="The connection was lost without a close frame: the network, or a process that died.",
        reconnect=True,
        then="Reconnect after a random 0 to 10 s, and sync; when the network of the device is back, after 0 to 1 s.",
    ),
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
        code=TRY_LATER,
        meaning="The process is overloaded, or too many sockets of your address have not authenticated.",
        reconnect=True,
        then="Reconnect after a random 0 to 10 s. A refused upgrade (503) says in `Retry-After` when.",
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
        meaning="You sent more frames than the rate allows, on all of your sockets together.",
        reconnect=True,
        then="Reconnect with backoff, sync, and send less.",
    ),
)
