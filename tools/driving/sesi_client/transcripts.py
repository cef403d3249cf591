"""The messages that a device has, by session and `seq` (docs/protocol.md#order-and-completeness)."""

from .wire import Frame

RANK = {"sent": 0, "delivered": 1, "read": 2}


def own_message(frame: Frame, ack: Frame, user: Frame) -> Frame:
    """Return the message that the service has stored for a `send_message` frame, made from its `message_ack`."""
    return {
        "id": ack["id"],
        "seq": ack["seq"],
        "created_at": ack["created_at"],
        "session_id": frame["session_id"],
        "sender_id": user.get("id"),
        "client_message_id": frame["client_message_id"],
        "content": frame["content"],
        "metadata": frame.get("metadata"),
        "type": "text",
        "status": "sent",
        "delivered_at": None,
        "read_at": None,
        "blanked": False,
    }


class Transcripts:
    """The messages of a user's sessions. What the user sees ends at the first gap."""

    def __init__(self) -> None:
        self._messages: dict[str, dict[int, Frame]] = {}
        self._whole: dict[str, int] = {}

    def clear(self) -> None:
        """Forget everything."""
        self._messages.clear()
        self._whole.clear()

    def sessions(self) -> set[str]:
        """Return the ids of all sessions that were looked at."""
        return set(self._messages)

    def whole(self, session_id: str) -> int:
        """Return the seq up to which the transcript has no gap."""
        known = self._messages.setdefault(session_id, {})
        seq = self._whole.get(session_id, 0)
        while seq + 1 in known:
            seq += 1
        self._whole[session_id] = seq
        return seq

    def has_gap(self, session_id: str) -> bool:
        """Return whether a message is missing below one that is there."""
        return max(self._messages.get(session_id, {}), default=0) > self.whole(session_id)

    def add(self, session_id: str, messages: list[Frame]) -> list[Frame]:
        """Add messages; return those that the user sees now and did not see before."""
        known = self._messages.setdefault(session_id, {})
        before = self.whole(session_id)
        for message in messages:
            known[message["seq"]] = _later(known.get(message["seq"]), message)
        return [known[seq] for seq in range(before + 1, self.whole(session_id) + 1)]

    def forget(self, session_id: str) -> None:
        """Remove a session's messages."""
        self._messages[session_id], self._whole[session_id] = {}, 0

    def mark(self, session_id: str, status: str, up_to: int, sender_id: str | None) -> None:
        """Set the status of a sender's messages up to a seq; it only grows."""
        for seq, message in self._messages.get(session_id, {}).items():
            if seq <= up_to and message["sender_id"] == sender_id and RANK[message["status"]] < RANK[status]:
                message["status"] = status

    def unread(self, session_id: str, read_up_to: int, own_id: str | None) -> int:
        """Return how many messages of the other party neither the service nor `read_up_to` counts as read."""
        return sum(
            message["sender_id"] != own_id and message["status"] != "read" and message["seq"] > read_up_to
            for message in self.shown(session_id)
        )

    def shown(self, session_id: str) -> list[Frame]:
        """Return the messages that the user sees: in order, up to the first gap."""
        return [self._messages[session_id][seq] for seq in range(1, self.whole(session_id) + 1)]


def _later(known: Frame | None, message: Frame) -> Frame:
    """Return the later form of a message: its status only grows."""
    if known is not None and known["id"] == message["id"] and RANK[known["status"]] > RANK[message["status"]]:
        return {**message, "status": known["status"]}
    return message
