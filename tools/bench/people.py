"""Users of a load, inserted into the database by the thousand: signed in, some of them in running chats.

A service of another revision may have another schema and other tokens, so that revision's own copy of this module
creates its users, in a process of that tree.
"""

import asyncio
import datetime as dt
import json
import secrets
from collections.abc import Sequence
from typing import Any

import asyncpg
import attrs

from core.base import ids
from core.base.actor import UserType
from core.security.access import AccessTokens
from tools.driving.service import Service

TOKEN_SECONDS = 7200
# Runs in the tree of another revision: reads what to create from standard input, writes the users to standard output.
ELSEWHERE = """
import asyncio, json, sys, types
import asyncpg, attrs
from tools.bench import people

async def make(asked):
    service = types.SimpleNamespace(env=asked["env"], database_url=asked["database_url"])
    service.code = types.SimpleNamespace(folder=None)
    connection = await asyncpg.connect(service.database_url)
    try:
        return await getattr(people, asked["kind"])(connection, service, asked["count"], **asked["options"])
    finally:
        await connection.close()

made = asyncio.run(make(json.load(sys.stdin)))
print(json.dumps([attrs.asdict(one) for one in made]))
"""


@attrs.frozen(kw_only=True)
class SignedInPerson:
    """A signed-in user and their access token."""

    id: str
    token: str


@attrs.frozen(kw_only=True)
class ChatPair:
    """A customer and a mitra in a running chat."""

    customer: SignedInPerson
    mitra: SignedInPerson
    session_id: str


async def _made_elsewhere(service: Service, kind: str, count: int, **options: Any) -> list[dict[str, Any]]:
    """Let the service's own tree create users. Raises RuntimeError with that process's errors if it fails."""
    asked = {"kind": kind, "count": count, "options": options, "env": service.env, "database_url": service.database_url}
    process = await asyncio.create_subprocess_exec(
        service.code.python, "-c", ELSEWHERE,
        cwd=service.code.folder, env=service.env,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, errors = await process.communicate(json.dumps(asked).encode())
    if process.returncode != 0:
        raise RuntimeError(f"creating {kind} failed: {errors.decode(errors='replace')[-1000:]}")
    return json.loads(out)


def _tokens(service: Service) -> AccessTokens:
    kid, _, secret = service.env["JWT_SECRETS"].partition(":")
    return AccessTokens(((kid, secret.encode()),))


async def _sign_in(
    connection: asyncpg.Connection, service: Service, kind: UserType, user_ids: Sequence[str]
) -> list[SignedInPerson]:
    tokens, now = _tokens(service), dt.datetime.now(dt.UTC)
    sids = [ids.new_id() for _ in user_ids]
    await connection.execute(
        """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, created_at, last_used_at, expires_at)
           SELECT i, $3, u, h, now(), now(), now() + interval '30 days'
           FROM unnest($1::uuid[], $2::uuid[], $4::text[]) AS x(i, u, h)""",
        sids, list(user_ids), kind.value, [secrets.token_hex(20) for _ in sids],
    )  # fmt: skip
    return [
        SignedInPerson(
            id=user_id,
            token=tokens.make(user_type=kind, user_id=user_id, auth_session_id=sid, now=now, seconds=TOKEN_SECONDS),
        )
        for user_id, sid in zip(user_ids, sids, strict=True)
    ]


async def customers(connection: asyncpg.Connection, service: Service, count: int) -> list[SignedInPerson]:
    """Insert signed-in customers with a name."""
    if service.code.folder is not None:
        return [SignedInPerson(**one) for one in await _made_elsewhere(service, "customers", count)]
    user_ids = [ids.new_id() for _ in range(count)]
    await connection.execute("INSERT INTO customers (id, display_name) SELECT unnest($1::uuid[]), 'Dewi'", user_ids)
    return await _sign_in(connection, service, UserType.CUSTOMER, user_ids)


async def mitras(connection: asyncpg.Connection, service: Service, count: int, *, online: bool) -> list[SignedInPerson]:
    """Insert signed-in, active mitras."""
    if service.code.folder is not None:
        return [SignedInPerson(**one) for one in await _made_elsewhere(service, "mitras", count, online=online)]
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
) -> list[ChatPair]:
    """Insert running chats that end in `minutes`, each `apart_s` seconds after the one before.

    With the default times they satisfy the ledger audit: a chat ends exactly after its paid time. Mitras are offline by
    default, because every search that runs in a grown database would invite them.
    """
    if service.code.folder is not None:
        made = await _made_elsewhere(service, "pairs", count, minutes=minutes, apart_s=apart_s, online=online)
        return [
            ChatPair(
                customer=SignedInPerson(**one["customer"]),
                mitra=SignedInPerson(**one["mitra"]),
                session_id=one["session_id"],
            )
            for one in made
        ]
    some_customers = await customers(connection, service, count)
    some_mitras = await mitras(connection, service, count, online=online)
    session_ids = [ids.new_id() for _ in range(count)]
    async with connection.transaction():
        await connection.execute(
            "SET LOCAL session_replication_role = replica"
        )  # skips the trigger against unpaid sessions
        await connection.execute(
            """INSERT INTO chat_sessions (id, customer_id, mitra_id, status, paired_at, expires_at, duration_minutes)
               SELECT s, c, m, 'active', t, t + $4::float8 * interval '1 minute' + n * $5::float8 * interval '1 second', 120
               FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS x(s, c, m, n), clock_timestamp() AS t""",
            session_ids, [one.id for one in some_customers], [one.id for one in some_mitras], minutes, apart_s,
        )  # fmt: skip
    return [
        ChatPair(customer=customer, mitra=mitra, session_id=session_id)
        for customer, mitra, session_id in zip(some_customers, some_mitras, session_ids, strict=True)
    ]
