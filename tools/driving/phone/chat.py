"""The sessions and messages of a phone (docs/protocol.md#chat)."""

import asyncio
import contextlib
import json
from typing import Any

import aiohttp

from tools.driving.client import Client, Refused, Socket
from tools.driving.phone.catching_up import CatchingUp
from tools.driving.phone.connection import PhoneConnection
from tools.driving.phone.outbox import Outbox
from tools.driving.phone.transcripts import Transcripts, own_message

LARGEST_FRAME = 16 * 1024  # bytes; a larger message is sent over REST
Frame = dict[str, Any]


class Chat:
    """What a phone on `/ws/chat` shows, and its outbox."""

    def __init__(self, client: Client, connection: PhoneConnection) -> None:
        self.sessions: dict[str, Frame] = {}
        self.transcripts = Transcripts()
        self._client = client
        self._connection = connection
        self.catching_up = CatchingUp(client, connection, self.transcripts, missing=self._send_lost)
        self.outbox = Outbox(self._transmit, client.storage)
        self.said: dict[str, Frame] = {}  # own acknowledged messages, by client_message_id
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Stop everything that waits; pending messages stay in the storage."""
        for task in self._tasks:
            task.cancel()
        self.catching_up.stop()
        self.outbox.stop()

    # -- frames

    async def take(self, socket: Socket, frame: Frame) -> None:
        """Handle a frame of `/ws/chat` that is not an event with a session."""
        kind = frame["type"]
        if "epoch" in frame:
            self.catching_up.see_epoch(frame["epoch"], lambda: set(self.sessions))
        if kind == "auth_ok":
            await self._take_snapshot(frame, first=frame is socket.frames[0])
        elif kind == "message":
            await self._take_message(frame["message"])
        elif kind == "sync":
            await self.catching_up.take_page(frame, self._keep)
        elif kind == "message_status":
            self.transcripts.mark(frame["session_id"], frame["status"], frame["up_to"])
        elif kind == "message_ack":
            await self._store_own(frame)
        elif kind == "error" and not self.catching_up.take_refusal(socket, frame):
            self.outbox.take_answer(frame)

    async def _take_snapshot(self, frame: Frame, *, first: bool) -> None:
        """After `auth_ok`, request missed messages; after the `first` one of a socket, send pending messages, too."""
        last_seqs = {session["id"]: session["last_seq"] for session in frame["sessions"]}
        ended = [one for one in self.sessions if one not in last_seqs and self.sessions[one]["status"] != "completed"]
        self.sessions.update({session["id"]: session for session in frame["sessions"]})
        for session_id in ended:
            task = asyncio.create_task(self._read_session(session_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await self.catching_up.compare(last_seqs, set(self.sessions))
        if first:
            self.outbox.resume()

    async def _read_session(self, session_id: str) -> None:
        """Read a session that is not in the snapshot: it ended while the phone was not connected."""
        with contextlib.suppress(Refused, aiohttp.ClientError, ConnectionError, TimeoutError):
            self.sessions[session_id] = await self._client.get(f"/api/shared/chat/sessions/{session_id}")

    async def take_session(self, session: Frame, *, newest: bool) -> None:
        """Take the session of an event. `newest`: no later event of this session has arrived."""
        if newest:
            self.sessions[session["id"]] = session
        if session["last_seq"] > self.transcripts.whole(session["id"]):
            await self.catching_up.ask(session["id"])

    async def _keep(self, session_id: str, messages: list[Frame]) -> None:
        """Store messages, and mark the other party's as delivered."""
        own_id = self._client.user.get("id")
        for message in messages:
            if message["sender_id"] == own_id:  # `sync` may return a message before its acknowledgement
                self.outbox.take_answer({**message, "type": "message_ack", "ref": message["client_message_id"]})
        new = self.transcripts.add(session_id, messages)
        if any(message["sender_id"] != own_id for message in new):
            up_to = self.transcripts.whole(session_id)
            await self._connection.send({"type": "delivered", "session_id": session_id, "up_to": up_to})

    async def _take_message(self, message: Frame) -> None:
        """Store one message, and request those that are missing before it."""
        session_id = message["session_id"]
        await self._keep(session_id, [message])
        if self.transcripts.has_gap(session_id):
            await self.catching_up.ask(session_id)

    async def _store_own(self, ack: Frame) -> None:
        """Add a pending message to the transcript: the service does not send it back."""
        frame = self.outbox.take_answer(ack)
        if frame is not None:
            self.said[frame["client_message_id"]] = frame
            await self._take_message(own_message(frame, ack, self._client.user))

    # -- messages of this device

    async def deliver(self, frame: Frame, life: asyncio.Task[None] | None) -> Frame:
        """Send a message until it is acknowledged or refused, or until `life` ends; return the last answer.

        Raises Refused, CancelledError.
        """
        settled = self.outbox.add(frame)
        try:
            await asyncio.wait([settled, *([] if life is None else [life])], return_when=asyncio.FIRST_COMPLETED)
            if not settled.done() and life is not None:
                life.result()
            answer = await settled
        finally:
            self.outbox.remove(frame["client_message_id"])
        if answer["type"] == "error":
            raise Refused(409, {"error": answer})
        return answer

    def _send_lost(self, session_id: str, stored: set[str]) -> None:
        """Send the acknowledged messages of a session again that the service has lost."""
        for message_id, frame in self.said.items():
            if frame["session_id"] == session_id and message_id not in stored:
                self.outbox.add(frame)

    async def _transmit(self, frame: Frame) -> Frame | None:
        """Send a message over the socket, or over REST if no frame can hold it; return the answer of REST."""
        if len(json.dumps(frame).encode()) <= LARGEST_FRAME:
            await self._connection.send(frame)
            return None
        body = {key: frame[key] for key in ("client_message_id", "content", "metadata") if key in frame}
        path = f"/api/shared/chat/sessions/{frame['session_id']}/messages"
        try:
            message = await self._client.post(path, body)
        except Refused as refused:
            return {"type": "error", **refused.body["error"]}
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return None
        await self._take_message(message)
        return {**message, "type": "message_ack"}
