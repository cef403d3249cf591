"""The chat requests on a mitra's screen (docs/protocol.md#the-mitra)."""

from typing import Any

CLOSED_KEPT = 20  # latest closed requests, so that the app can say why one has gone
GONE = {"REQUEST_TAKEN": "taken", "REQUEST_CLOSED": "timeout", "NOT_FOUND": "timeout"}  # code -> reason
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

    def take_refusal(self, session_id: str, code: str | None) -> None:
        """Take the refusal of an acceptance; some codes mean that the request is gone."""
        if code in GONE:
            self.close(session_id, GONE[code])

    def close(self, session_id: str, reason: str) -> None:
        """Remove a request from the screen."""
        if self.open.pop(session_id, None) is not None:
            self.closed = [*self.closed, {"session_id": session_id, "reason": reason}][-CLOSED_KEPT:]
