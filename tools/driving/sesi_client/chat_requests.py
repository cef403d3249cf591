"""The chat requests on a mitra's screen (docs/protocol.md#the-mitra)."""

import asyncio

from .errors import Refused
from .rest import Rest
from .wire import Frame, Json

CLOSED_KEPT = 20  # latest closed requests, so that the app can say why one has gone
GONE = {"REQUEST_TAKEN": "taken", "REQUEST_CLOSED": "timeout", "NOT_FOUND": "timeout"}  # code -> reason


class ChatRequests:
    """The open requests by session id, oldest first, and the latest closed ones, newest first."""

    def __init__(self, rest: Rest) -> None:
        self.open: dict[str, Json] = {}
        self.closed: list[Json] = []
        self._rest = rest

    def clear(self) -> None:
        """Forget everything: the user has signed out."""
        self.open, self.closed = {}, []

    def replace(self, requests: list[Json]) -> None:
        """Take the snapshot of `auth_ok`."""
        self.open = {}
        for request in requests:
            self._add(request)

    def take(self, frame: Frame) -> None:
        """Take `chat_request` or `chat_request_closed`."""
        if frame["type"] == "chat_request":
            self._add(frame["request"])
        elif frame["type"] == "chat_request_closed":
            self._close(frame["session_id"], frame["reason"])

    async def accept(self, session_id: str) -> Json:
        """Accept a request and return its session. Raises SesiError, also after noting why the request is gone."""
        try:
            session = await self._rest.ask("POST", f"/api/mitra/chat-requests/{session_id}/accept", fields=("id",))
        except Refused as refused:
            if refused.code in GONE:
                self._close(session_id, GONE[refused.code])
            raise
        self.open.pop(session_id, None)
        return session

    async def reject(self, session_id: str) -> None:
        """Reject a request. Raises SesiError."""
        await self._rest.ask("POST", f"/api/mitra/chat-requests/{session_id}/reject")
        self.open.pop(session_id, None)

    def _add(self, request: Json) -> None:
        self.open[request["session_id"]] = request
        seconds = self._rest.clock.real_seconds_until(request["answer_by"])
        asyncio.get_running_loop().call_later(seconds, self._expire, request)

    def _expire(self, request: Json) -> None:
        if self.open.get(request["session_id"]) is request:
            del self.open[request["session_id"]]

    def _close(self, session_id: str, reason: str) -> None:
        self.open.pop(session_id, None)
        others = [closed for closed in self.closed if closed["session_id"] != session_id]
        self.closed = [{"session_id": session_id, "reason": reason}, *others][:CLOSED_KEPT]
