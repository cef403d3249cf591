"""The description of the WebSocket interface: the rules that the schemas of the AsyncAPI document can't express."""

from core.settings.settings import Settings
from realtime import acks, budgets, close_codes, inbox
from realtime import connection as limits
from realtime.connections import SOCKETS_A_USER
from realtime.handshake import HANDSHAKE_S

REREAD_S = 10  # clients spread their re-reading after a failover over this many seconds
DESCRIPTION = """\
Each text frame is one JSON object, and `type` names it. Every frame from the service carries the service's time.

**Handshake.** Send `auth` with an access token of the public interface as the first frame, within {handshake} s. The \
answer is `auth_ok` with a snapshot. The socket is subscribed before the snapshot is taken, so a `sync` after it leaves no \
gap. 60 s before the token expires you get `auth_expiring`: send `auth` again with a new token of the same user.

**Delivery.** At least once. An event with an `event_id` is repeated after each `auth_ok` of its user, for an hour, until \
one device acknowledges it by `ack`. Ignore an `event_id` that you have already handled. The ids of a session's events \
increase in the order of its changes, whichever process made them. A lost event can arrive late: if its id is smaller than \
that of an event you have of the same session, acknowledge it and keep your state. A `message` is not repeated, although it \
has an `event_id`: messages arrive in the order of `seq`, without gaps, and `sync` returns the ones you missed. Acknowledge \
them by `delivered` or `read`. Every device of a user gets every frame.

**Epochs.** `auth_ok` and `sync` carry the `epoch` of the database's history. A failover to another server or a restore \
changes it and closes the sockets with 1012; the messages that were acknowledged last may be lost. If the epoch differs from \
the one you knew, wait a random 0 to {reread} s, then read your sessions again by `sync` with `after: 0`. Drop messages that \
the answers do not contain, and send your own ones among them again with their old `client_message_id`.

**Answers.** Every client frame may carry a `ref`, and its answer echoes it. A refused frame is answered by `error`, and \
the socket stays open. `INVALID_FRAME` means that the frame could not be read; `UNKNOWN_TYPE` that this socket has no such \
frame. Error messages are in Indonesian or English. The upgrade request selects the language by `Accept-Language`, or else by \
`X-Locale`; the default is English.

**Compatibility.** Fields, frames and codes may be added, never removed: ignore those that you do not know. The service \
rejects unknown fields in the frames that you send.

**Limits.** A frame has at most {max_frame} bytes (else 1009). A user may send {rate} frames a second, with bursts of \
{burst}, on all sockets together (else 4429). A protocol ping counts as one frame, `sync` and `auth` as {sync}, an `ack` of an \
unknown event as {ack}, and a frame about another user's session as {strange}. A user may send {messages} messages a second in \
a session, with bursts of {messages_burst}. A message or a `sync` over its limit is answered by `TOO_FAST`, and the socket \
stays open: wait `retry_after_seconds`, then send again in the same order. A user may have {sockets} sockets on each path; one \
more closes the oldest (4409). An address may have {unknown} unauthenticated sockets; one more closes the oldest (1013). A \
socket closes (4408) when {waiting} frames or 1 MiB wait to be read by its client. The service sends a protocol ping after \
{ping} s of silence; two unanswered ones close the socket (4408).

**Reconnecting.** Wait a random 0 to 1 s before the first attempt, a random 0 to 2, 4, 8 and 10 s before the next ones, and \
0 to 30 s from then on. After 1012 wait a random 0 to 5 s, after 1013 a random 0 to 10 s. An upgrade that is refused with 503 \
names the seconds to wait in `Retry-After`. In all these cases the token stays valid.

**Close codes.**

| code | meaning | reconnect | what to do |
|---|---|---|---|
{codes}
"""


def text(settings: Settings) -> str:
    """Return the description, with the limits from the settings."""
    rows = [f"| {c.code} | {c.meaning} | {'yes' if c.reconnect else 'no'} | {c.then} |" for c in close_codes.ALL]
    return DESCRIPTION.format(
        handshake=int(HANDSHAKE_S),
        max_frame=inbox.MAX_FRAME,
        rate=settings.ws_frames_per_second,
        burst=settings.ws_frames_burst,
        sync=budgets.SYNC_COST,
        ack=1 + acks.UNKNOWN_COST,
        strange=1 + budgets.STRANGE_COST,
        messages=settings.ws_messages_per_second,
        messages_burst=settings.ws_messages_burst,
        unknown=settings.ws_unauthenticated_per_address,
        sockets=SOCKETS_A_USER,
        waiting=limits.MAX_FRAMES,
        ping=limits.PING_S,
        reread=REREAD_S,
        codes="\n".join(rows),
    )
