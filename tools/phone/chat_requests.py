"""The chat requests on a mitra's screen (docs/protocol.md#the-mitra)."""

from typing import Any

CLOSED_KEPT = 20  # latest closed requests, so that the app can say why one has gone
GONE = frozenset({"REQUEST_TAKEN", "REQUEST_CLOSED", "NOT_FOUND"})
Frame = dict[str, Any]


class ChatRequests:
    """The open requests by session id, oldest first, and the latest closed ones."""

    def __init__(self) -> None:
        self.open: dict[str, Frame] = {}
        self.closed: list[Frame] = []

    def replace(self, requests: list[Frame]) -> None:
        """Take the snapshot of `auth_ok`."""
        self.open = {request["session_id"]: request for request in requests}

    def take_event(self, frame: Frame) -> None:
        """Take `chat_request` or `chat_request_closed`."""
        if frame["type"] == "chat_request":
            self.open[frame["request"]["session_id"]] = frame["request"]
        elif frame["type"] == "chat_request_closed":
            self.close(frame["session_id"], frame["reason"])

    def take_answer(self, session_id: str, frame: Frame) -> None:
        """Take the answer to `accept`: `accepted` or an `error`."""
        if frame["type"] == "accepted":
            self.close(session_id, "accepted")
        elif frame["code"] in GONE:
            self.close(session_id, "taken" if frame["code"] == "REQUEST_TAKEN" else "timeout")

    def close(self, session_id: str, reason: str) -> None:
        """Remove a request from the screen."""
        if self.open.pop(session_id, None) is not None:
            self.closed = [*self.closed, {"session_id": session_id, "reason": reason}][-CLOSED_KEPT:]
