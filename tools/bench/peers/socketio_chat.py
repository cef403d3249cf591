"""The chat peer: python-socketio with a row in PostgreSQL for each message, as a team with experience in both would
write it.

It does what the load needs: it checks a signed token at connect, refuses sessions of other users, stores a message once
by the client's id, acknowledges it after its commit, and sends it to the other party on any process (Redis manager).
The messages of a socket are handled one at a time, so they stay in order. With python-socketio's default, a task for
each event, up to half of them arrived after a later one, at about the same cost.

It is optimized as such servers can be: uvloop, aiohttp (uvicorn was no faster), orjson, WebSockets only and without
compression, prepared statements on a pool without resets, no logging of events, and no read for a message, because a
socket's sessions are read when it connects.

It does less than the service, which favours the peer: no check that the session is still active, no read markers, one
sequence for the whole table instead of one without gaps for each session, no foreign key, and no index for reading a
conversation.

Environment: DATABASE_URL with the service's tables, REDIS_URL, JWT_SECRETS as for the service. It runs in
.venv-bench: `.venv-bench/bin/python tools/bench/peers/socketio_chat.py PORT`.
"""

import os
import sys
import uuid
from datetime import UTC, datetime
from typing import Any

import asyncpg
import jwt
import orjson
import socketio
import uvloop
from aiohttp import web

POOL_SIZE = 20  # as in an API process of the service

TABLE = """CREATE TABLE IF NOT EXISTS peer_messages (
  id uuid PRIMARY KEY,
  session_id uuid NOT NULL,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  sender_id uuid NOT NULL,
  client_message_id uuid NOT NULL,
  content text NOT NULL,
  created_at timestamptz NOT NULL,
  UNIQUE (session_id, sender_id, client_message_id))"""
# The other party in each session of a user.
PARTNERS = """SELECT id::text AS session_id, CASE customer_id WHEN $1 THEN mitra_id ELSE customer_id END::text AS partner_id
  FROM chat_sessions WHERE (customer_id = $1 OR mitra_id = $1) AND status = 'active'"""
# Returns no row for a message that is already stored.
STORE = """INSERT INTO peer_messages (id, session_id, sender_id, client_message_id, content, created_at)
  VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (session_id, sender_id, client_message_id) DO NOTHING RETURNING seq"""
STORED = """SELECT id::text, seq, created_at FROM peer_messages
  WHERE session_id = $1 AND sender_id = $2 AND client_message_id = $3"""


async def keep(_: asyncpg.Connection) -> None:
    """Replace asyncpg's reset of returned connections, which costs a round trip for each message.

    Nothing here changes the settings of a connection.
    """


class Json:
    """orjson with the interface that python-socketio needs."""

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        """Encode a value."""
        return orjson.dumps(value).decode()

    loads = staticmethod(orjson.loads)


class Chat:
    """The application: the connected users and the event handlers."""

    def __init__(self, *, redis_url: str, secret: bytes) -> None:
        self.server = socketio.AsyncServer(
            async_mode="aiohttp",
            client_manager=socketio.AsyncRedisManager(redis_url),
            transports=["websocket"],
            json=Json,
            # The events of one socket are handled one at a time, or its chat would be out of order. Sockets are
            # independent.
            async_handlers=False,
        )
        self.server.on("connect", self.connect)
        self.server.on("disconnect", self.disconnect)
        self.server.on("message", self.message)
        self.pool: asyncpg.Pool
        self._secret = secret
        self._users: dict[str, tuple[str, dict[str, str]]] = {}

    async def connect(self, sid: str, _: dict[str, Any], auth: Any) -> None:
        """Accept a user with a valid token, and read their sessions."""
        try:
            claims = jwt.decode(auth["token"], self._secret, algorithms=["HS256"], audience="public")
        except (jwt.PyJWTError, KeyError, TypeError) as error:
            raise socketio.exceptions.ConnectionRefusedError("UNAUTHENTICATED") from error
        user_id = claims["sub"]
        rows = await self.pool.fetch(PARTNERS, user_id)
        self._users[sid] = user_id, {row["session_id"]: row["partner_id"] for row in rows}
        await self.server.enter_room(sid, user_id)

    async def disconnect(self, sid: str, _: str) -> None:
        """Forget the user of a socket."""
        self._users.pop(sid, None)

    async def message(self, sid: str, data: dict[str, Any]) -> dict[str, Any]:
        """Store a message, send it to the other party, and return the acknowledgement."""
        user_id, partners = self._users[sid]
        session_id = data["session_id"]
        partner_id = partners.get(session_id)
        if partner_id is None:
            return {"error": "NOT_FOUND"}
        content = data["content"]
        if not isinstance(content, str) or not 0 < len(content) <= 4000:
            return {"error": "VALIDATION_ERROR"}
        client_message_id, message_id, created_at = data["client_message_id"], str(uuid.uuid4()), datetime.now(UTC)
        seq = await self.pool.fetchval(
            STORE, message_id, session_id, user_id, client_message_id, content, created_at
        )  # fmt: skip
        if seq is None:
            stored = await self.pool.fetchrow(STORED, session_id, user_id, client_message_id)
            return {"id": stored["id"], "seq": stored["seq"], "created_at": stored["created_at"].isoformat()}
        answer = {"id": message_id, "seq": seq, "created_at": created_at.isoformat()}
        await self.server.emit(
            "message",
            {**answer, "session_id": session_id, "sender_id": user_id, "client_message_id": client_message_id, "content": content},
            room=partner_id,
        )  # fmt: skip
        return answer


async def application(*, database_url: str, redis_url: str, secret: bytes) -> web.Application:
    """Return the application; it opens its connections when it starts."""
    chat = Chat(redis_url=redis_url, secret=secret)
    app = web.Application()

    async def database(_: web.Application) -> Any:
        async with asyncpg.create_pool(database_url, min_size=POOL_SIZE, max_size=POOL_SIZE, reset=keep) as chat.pool:
            await chat.pool.execute(TABLE)
            yield

    async def shutdown(_: web.Application) -> None:
        await chat.server.shutdown()

    app.cleanup_ctx.append(database)
    app.on_shutdown.append(shutdown)
    chat.server.attach(app)
    return app


if __name__ == "__main__":
    uvloop.install()
    web.run_app(
        application(
            database_url=os.environ["DATABASE_URL"],
            redis_url=os.environ["REDIS_URL"],
            secret=os.environ["JWT_SECRETS"].split(",")[0].partition(":")[2].encode(),
        ),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        access_log=None,
        print=None,
        shutdown_timeout=2,  # don't wait for sockets whose clients are gone
    )
