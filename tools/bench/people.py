"""People by the thousand, put into the database as their requests would have: signed in, some in a running chat."""

import datetime as dt
import secrets
from collections.abc import Sequence

import asyncpg
import attrs

from core.base import ids
from core.base.actor import UserType
from core.logins.access import AccessTokens
from tools.service import Service

TOKEN_SECONDS = 7200


@attrs.frozen(kw_only=True)
class Person:
    """Somebody who is signed in."""

    id: str
    token: str


@attrs.frozen(kw_only=True)
class Pair:
    """A customer and a mitra in a running chat."""

    customer: Person
    mitra: Person
    session_id: str


def _tokens(service: Service) -> AccessTokens:
    kid, _, secret = service.env["JWT_SECRETS"].partition(":")
    return AccessTokens(((kid, secret.encode()),))


async def _sign_in(
    connection: asyncpg.Connection, service: Service, kind: UserType, user_ids: Sequence[str]
) -> list[Person]:
    tokens, now = _tokens(service), dt.datetime.now(dt.UTC)
    sids = [ids.new_id() for _ in user_ids]
    await connection.execute(
        """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, created_at, last_used_at, expires_at)
           SELECT i, $3, u, h, now(), now(), now() + interval '30 days'
           FROM unnest($1::uuid[], $2::uuid[], $4::text[]) AS x(i, u, h)""",
        sids, list(user_ids), kind.value, [secrets.token_hex(20) for _ in sids],
    )  # fmt: skip
    return [
        Person(
            id=user_id,
            token=tokens.make(user_type=kind, user_id=user_id, auth_session_id=sid, now=now, seconds=TOKEN_SECONDS),
        )
        for user_id, sid in zip(user_ids, sids, strict=True)
    ]


async def customers(connection: asyncpg.Connection, service: Service, count: int) -> list[Person]:
    """Customers with a name, signed in."""
    user_ids = [ids.new_id() for _ in range(count)]
    await connection.execute("INSERT INTO customers (id, display_name) SELECT unnest($1::uuid[]), 'Dewi'", user_ids)
    return await _sign_in(connection, service, UserType.CUSTOMER, user_ids)


async def mitras(connection: asyncpg.Connection, service: Service, count: int, *, online: bool) -> list[Person]:
    """Active mitras, signed in."""
    user_ids = [ids.new_id() for _ in range(count)]
    phones = [f"+628{secrets.randbelow(10**11):011d}" for _ in user_ids]
    await connection.execute(
        """INSERT INTO mitras (id, phone, display_name, is_active)
           SELECT i, p, 'Ayu', true FROM unnest($1::uuid[], $2::text[]) AS x(i, p)""",
        user_ids, phones,
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO mitra_online_status (id, mitra_id, is_online, last_online_at, last_heartbeat_at)
           SELECT i, m, $3, now(), now() FROM unnest($1::uuid[], $2::uuid[]) AS x(i, m)""",
        [ids.new_id() for _ in user_ids], user_ids, online,
    )  # fmt: skip
    return await _sign_in(connection, service, UserType.MITRA, user_ids)


async def pairs(
    connection: asyncpg.Connection,
    service: Service,
    count: int,
    *,
    minutes: float = 120,
    apart_s: float = 0,
    online: bool = False,
) -> list[Pair]:
    """Running chats that end in so many minutes, each `apart_s` seconds behind the one before.

    Mitras who are not `online` take no further requests: all searches that run in a grown database would ask every one.
    """
    some_customers = await customers(connection, service, count)
    some_mitras = await mitras(connection, service, count, online=online)
    session_ids = [ids.new_id() for _ in range(count)]
    await connection.execute(
        """INSERT INTO chat_sessions (id, customer_id, mitra_id, status, paired_at, expires_at, duration_minutes)
           SELECT s, c, m, 'active', clock_timestamp(),
             clock_timestamp() + $4::float8 * interval '1 minute' + n * $5::float8 * interval '1 second', 120
           FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS x(s, c, m, n)""",
        session_ids, [one.id for one in some_customers], [one.id for one in some_mitras], minutes, apart_s,
    )  # fmt: skip
    return [
        Pair(customer=customer, mitra=mitra, session_id=session_id)
        for customer, mitra, session_id in zip(some_customers, some_mitras, session_ids, strict=True)
    ]
