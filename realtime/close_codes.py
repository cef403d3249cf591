"""Every close code, and what an app does after it (docs/protocol.md#close-codes).

The answer to a client's close frame repeats the client's code if that may be sent, also one that is not here.
"""

import attrs


@attrs.frozen(kw_only=True)
class CloseCode:
    """A close code. `reconnect`: whether the app connects again without asking its user. `then`: what the app does."""

    code: int
    meaning: str
    reconnect: bool
    then: str


PROTOCOL_ERROR = 1002
CONNECTION_LOST = 1006  # never sent: client libraries report it when there was no close frame
NOT_TEXT = 1007
TOO_LARGE = 1009
GOING_AWAY = 1012
TRY_LATER = 1013
NOT_AUTHENTICATED = 4401
REVOKED = 4403
TOO_SLOW = 4408
TOO_MANY_SOCKETS = 4409
TOO_FAST = 4429

# Codes with which the service refuses a client: each close writes one log line. Those in LIMITS are also counted in the
# metric of refusals, under these names.
REFUSALS = frozenset(
    {
        PROTOCOL_ERROR,
        NOT_TEXT,
        TOO_LARGE,
        TRY_LATER,
        NOT_AUTHENTICATED,
        REVOKED,
        TOO_SLOW,
        TOO_MANY_SOCKETS,
        TOO_FAST,
    }
)
LIMITS = {
    TOO_LARGE: "socket_frame_bytes",
    TOO_SLOW: "socket_unread",
    TOO_MANY_SOCKETS: "sockets_per_user",
    TOO_FAST: "socket_frames",
}

ALL = (
    CloseCode(
        code=PROTOCOL_ERROR,
        meaning="The client violated the WebSocket protocol (RFC 6455).",
        reconnect=True,
        then="Reconnect with backoff, and sync. Correct the client's WebSocket library if it happens again.",
    ),
    CloseCode(
        code=CONNECTION_LOST,
        meaning="The connection was lost without a close frame: the network failed or a process died.",
        reconnect=True,
        then="Reconnect with backoff, the first time after a random 0 to 1 s, and sync.",
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
        meaning="The process is stopping, can't read your state right now, or has a new snapshot for you.",
        reconnect=True,
        then="Reconnect after a random 0 to 5 s, and sync.",
    ),
    CloseCode(
        code=TRY_LATER,
        meaning="The process is overloaded, or your address has too many unauthenticated sockets.",
        reconnect=True,
        then="Reconnect after a random 0 to 10 s. If an upgrade is refused with 503, wait for the seconds in "
        "`Retry-After`.",
    ),
    CloseCode(
        code=NOT_AUTHENTICATED,
        meaning="No valid `auth` frame came in time, the token has expired, the anonymous customer has signed in and "
        "the socket has the earlier token, or a later `auth` had another user's token.",
        reconnect=True,
        then="Connect with a newer token if you have one; else refresh the token first.",
    ),
    CloseCode(
        code=REVOKED,
        meaning="The auth session has ended: by logout, by removing the device, because a refresh token was used "
        "twice, or because the account was erased or deactivated or its phone number changed.",
        reconnect=False,
        then="Sign in again.",
    ),
    CloseCode(
        code=TOO_SLOW,
        meaning="Two pings were not answered, or you read too slowly.",
        reconnect=True,
        then="Reconnect and sync.",
    ),
    CloseCode(
        code=TOO_MANY_SOCKETS,
        meaning="You have too many sockets on this path: a newer one replaced this one.",
        reconnect=False,
        then="Don't reconnect: the newer socket stays open.",
    ),
    CloseCode(
        code=TOO_FAST,
        meaning="You sent more frames than the rate limit allows, counted over all of your sockets.",
        reconnect=True,
        then="Reconnect with backoff, sync, and send less.",
    ),
)
