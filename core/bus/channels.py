"""Names on the bus: the channels of sessions and recipients, and the slots of a cluster (docs/architecture.md#signals).

A cluster hashes what a name has in braces, so the names of one tag are on the same server. Ids end in random bits,
which spread them evenly over the tags.
"""

from redis.crc import key_slot

TAGS = 64
SIGNALS = "sesi:signals"
HUBS = f"sesi:{{{SIGNALS}}}:hubs"  # of realtime processes, on the server of the signals


def of_session(session_id: str) -> str:
    """Return the channel of a session's messages, read markers and typing."""
    return f"sesi:{{{_tag(session_id)}}}:session:{session_id}"


def of_recipient(user_id: str) -> str:
    """Return the channel of a user's events."""
    return f"sesi:{{{_tag(user_id)}}}:user:{user_id}"


def slot_of(name: str) -> int:
    """Return the slot of a cluster, 0 to 16383, that holds a channel or key."""
    return int(key_slot(name.encode()))


def _tag(name: str) -> int:
    return int(name[-2:], 16) % TAGS
