"""Insert thousands of users directly into a test's database, each with a token signed with the service's key."""

import datetime as dt

import asyncpg
import attrs

from core.base import ids
from core.base.actor import UserType
from core.security.access import AccessTokens
from tests.stack import Stack

TOKEN_S = 86_400


@attrs.frozen
class User:
    """A user with a valid token."""

    id: str
    token: str


async def users(stack: Stack, kind: UserType, count: int, *, online: bool = False) -> list[User]:
    """Insert `count` customers or mitras as a sign-in would, and return them."""
    kid, secret = stack.env["JWT_SECRETS"].split(":")
    tokens = AccessTokens(((kid, secret.encode()),))
    connection = await asyncpg.connect(stack.database_url)
    try:
        now: dt.datetime = await connection.fetchval("SELECT clock_timestamp()")
        made = [(ids.new_id(), ids.new_id()) for _ in range(count)]
        if kind is UserType.MITRA:
            await connection.executemany(
                "INSERT INTO mitras (id, phone, display_name, is_active) VALUES ($1, $2, $3, true)",
                [(user, f"+62{ids.new_id()[-12:]}", f"Mitra {n}") for n, (user, _) in enumerate(made)],
            )
            await connection.executemany(
                """INSERT INTO mitra_online_status (id, mitra_id, is_online, last_online_at, last_heartbeat_at)
                   VALUES ($1, $2, $3, $4, $4)""",
                [(ids.new_id(), user, online, now) for user, _ in made],
            )
            if online:
                await connection.executemany(
                    """INSERT INTO mitra_online_logs (id, mitra_id, status, "timestamp") VALUES ($1, $2, 'online', $3)""",
                    [(ids.new_id(), user, now) for user, _ in made],
                )
        else:
            await connection.executemany(
                "INSERT INTO customers (id, display_name) VALUES ($1, $2)",
                [(user, f"Customer {n}") for n, (user, _) in enumerate(made)],
            )
        await connection.executemany(
            """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, expires_at)
               VALUES ($1, $2, $3, $4, $5)""",
            [(sid, kind.value, user, sid, now + dt.timedelta(days=30)) for user, sid in made],
        )
    finally:
        await connection.close()
    return [
        User(user, tokens.make(user_type=kind, user_id=user, auth_session_id=sid, now=now, seconds=TOKEN_S))
        for user, sid in made
    ]


async def active_sessions(stack: Stack, pairs: list[tuple[User, User]]) -> list[str]:
    """Insert an active session of an hour, without a payment, for each customer and mitra; return the ids."""
    connection = await asyncpg.connect(stack.database_url)
    made = [ids.new_id() for _ in pairs]
    try:
        # Turns off the trigger that refuses unpaid sessions.
        await connection.execute("SET session_replication_role = replica")
        await connection.executemany(
            """INSERT INTO chat_sessions (id, customer_id, mitra_id, status, created_at, paired_at, duration_minutes, expires_at)
               SELECT $1, $2, $3, 'active', t, t, 60, t + interval '60 minutes' FROM (SELECT clock_timestamp() t) x""",
            [(session, customer.id, mitra.id) for session, (customer, mitra) in zip(made, pairs, strict=True)],
        )
    finally:
        await connection.close()
    return made
