"""An upgrade ends the auth sessions of the anonymous row; an account's ids are bounded.

See docs/product.md#merging-accounts.
"""

import pytest

from core.accounts.customers.store import JOINS_A_DAY, NEWEST
from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import (
    all_at_once,
    anonymous,
    by_identity,
    device,
    me_status,
    new_subject,
    raw,
    store_tokens,
    token_ends,
)
from tests.sockets.plain_socket import bare_and_known, token_like
from tests.stack import World, new_id, refused, within
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio

REQUESTS = "/api/client/payment/requests"
# $2 rows that joined the account, one an hour, the newest an hour ago; the $3 oldest of them have a pending payment, the next 5 an expired one.
JOINED = """WITH made AS (
    INSERT INTO customers (id, is_anonymous, account_belongs_to, joined_real_at, created_at)
    SELECT gen_random_uuid(), true, $1::text::uuid, clock_timestamp() - n * interval '1 hour', now() FROM generate_series(1, $2::int) n
    RETURNING id, joined_real_at)
  INSERT INTO payment_requests (id, customer_id, amount, duration_minutes, is_first_session_discount, is_extension, mode, status, created_at, expires_at)
  SELECT gen_random_uuid(), id, 12000, 12, false, false, 'chat', CASE WHEN place <= $3 THEN 'pending' ELSE 'expired' END, now(), now() + interval '20 minutes'
  FROM (SELECT id, row_number() OVER (ORDER BY joined_real_at) AS place FROM made) m WHERE place <= $3 + 5
  RETURNING id::text, status"""


async def test_upgrade_ends_the_auth_sessions_of_the_row(world: World, provider_a: IdentityServer) -> None:
    client, other = await anonymous(world), new_id()
    await world.stack.sql(
        """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, expires_at, created_at)
           VALUES ($2::text::uuid, 'customer', $1::text::uuid, $2::text, now() + interval '1 day', now())""",
        client.user["id"],
        other,
    )
    copied = device(world)
    copied.access_token, copied.user = token_like(world.stack, client, sid=other), client.user
    socket, _ = await bare_and_known(copied)
    assert await me_status(copied) == 200
    answer = await by_identity(client, provider_a, new_subject())
    assert answer["customer"]["id"] == client.user["id"]
    assert await socket.code(within(1)) == 4403
    await token_ends(world, copied)
    # A copy of the caller's own tokens must not become the account either.
    await token_ends(world, client)
    await refused(
        client.post("/api/shared/auth/refresh", {"refresh_token": client.refresh_token}), 401, "REFRESH_INVALID"
    )
    assert await me_status(store_tokens(device(world), answer)) == 200


async def test_account_ids_are_its_newest_rows_and_all_rows_with_a_payment(
    world: World, provider_a: IdentityServer
) -> None:
    subject = new_subject()
    account = store_tokens(device(world), await by_identity(device(world), provider_a, subject))
    paid = [
        row["id"] for row in await world.stack.sql(JOINED, account.user["id"], 200, 3) if row["status"] == "pending"
    ]
    fresh = await anonymous(world)
    joined = await by_identity(fresh, provider_a, subject)
    assert joined["customer"]["id"] == account.user["id"]
    (row,) = await world.stack.sql(
        "SELECT account_belongs_to::text AS owner FROM customers WHERE id = $1::text::uuid", fresh.user["id"]
    )
    assert row["owner"] == account.user["id"]  # the pointer is set, even beyond the bound
    client = store_tokens(device(world), joined)
    for request_id in paid:  # the oldest rows, each with a payment
        assert (await raw(client, "GET", f"{REQUESTS}/{request_id}"))[0] == 200
    expired = await world.stack.sql(
        """SELECT p.id::text FROM payment_requests p JOIN customers c ON c.id = p.customer_id
           WHERE c.account_belongs_to = $1::text::uuid AND p.status = 'expired'""",
        account.user["id"],
    )
    assert len(expired) == 5
    assert {(await raw(client, "GET", f"{REQUESTS}/{row['id']}"))[0] for row in expired} == {404}
    assert await ids_of(world, client) == NEWEST + 1 + len(paid)


async def test_merge_over_the_daily_limit_is_429_and_succeeds_a_day_later(
    world: World, provider_a: IdentityServer
) -> None:
    subject = new_subject()
    account = store_tokens(device(world), await by_identity(device(world), provider_a, subject))
    owner = account.user["id"]
    await world.stack.sql(
        """INSERT INTO customers (id, is_anonymous, account_belongs_to, joined_real_at, created_at)
           SELECT gen_random_uuid(), true, $1::text::uuid, clock_timestamp() - n * interval '1 minute', now()
           FROM generate_series(1, $2::int) n""",
        owner,
        JOINS_A_DAY - 1,
    )
    fresh = [await anonymous(world) for _ in range(4)]
    answers = await all_at_once([by_identity(client, provider_a, subject) for client in fresh])
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    assert [(one.status, one.code) for one in refused] == [(429, "RATE_LIMITED")] * 3
    hours = refused[0].body["error"]["retry_after_seconds"] / 3600
    assert 22 < hours < 24  # the first of them joined 49 minutes ago
    joined = "SELECT count(*) AS n FROM customers WHERE account_belongs_to = $1::text::uuid"
    assert (await world.stack.sql(joined, owner))[0]["n"] == JOINS_A_DAY
    # The account itself can sign in on any device, and the refused customers stay unchanged.
    assert (await by_identity(device(world), provider_a, subject))["customer"]["id"] == owner
    turned_away = next(client for client, answer in zip(fresh, answers, strict=True) if isinstance(answer, Refused))
    assert await me_status(turned_away) == 200
    await world.stack.sql(
        """UPDATE customers SET joined_real_at = joined_real_at - interval '1 day'
           WHERE account_belongs_to = $1::text::uuid""",
        owner,
    )
    assert (await by_identity(turned_away, provider_a, subject))["customer"]["id"] == owner


async def ids_of(world: World, client: Device) -> int:
    """Return how many ids a caller has."""
    from core.accounts.customers import store
    from core.storage.database import Database

    database = await Database.connect(world.stack.database_url, size=1)
    try:
        return len(await store.ids_of(database, client.user["id"]))
    finally:
        await database.close()
