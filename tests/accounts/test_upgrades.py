"""An upgrade ends the anonymous row's other auth sessions; an account's ids have a bound (contract 3)."""

import pytest

from core.customers.store import NEWEST
from tests.accounts.outside import IdentityServer
from tests.accounts.people import anonymous, by_identity, device, keep, me_status, new_subject, raw
from tests.realtime.bare import bare_and_known, token_like
from tests.stack import World, new_id, within
from tools.client import Client

pytestmark = pytest.mark.anyio

REQUESTS = "/api/client/payment/requests"
# Many rows that joined an account, one each second, the last one now; `paid` of them, the first ones, have a payment.
JOINED = """WITH made AS (
    INSERT INTO customers (id, is_anonymous, account_belongs_to, joined_real_at, created_at)
    SELECT gen_random_uuid(), true, $1::text::uuid, clock_timestamp() - n * interval '1 second', now() FROM generate_series(1, $2::int) n
    RETURNING id, joined_real_at)
  INSERT INTO payment_requests (id, customer_id, amount, duration_minutes, is_first_session_discount, is_extension, mode, status, created_at, expires_at)
  SELECT gen_random_uuid(), id, 12000, 12, false, false, 'chat', CASE WHEN place <= $3 THEN 'pending' ELSE 'expired' END, now(), now() + interval '20 minutes'
  FROM (SELECT id, row_number() OVER (ORDER BY joined_real_at) AS place FROM made) m WHERE place <= $3 + 5
  RETURNING id::text, status"""


async def test_an_upgrade_ends_the_rows_other_auth_sessions(world: World, provider_a: IdentityServer) -> None:
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
    await world.until(lambda: me_status(copied), lambda status: status == 401, timeout=within(1))
    assert await me_status(client) == 200
    assert await me_status(keep(device(world), answer)) == 200


async def test_an_account_has_its_newest_rows_and_all_with_a_payment(world: World, provider_a: IdentityServer) -> None:
    subject = new_subject()
    account = keep(device(world), await by_identity(device(world), provider_a, subject))
    paid = [
        row["id"] for row in await world.stack.sql(JOINED, account.user["id"], 200, 3) if row["status"] == "pending"
    ]
    fresh = await anonymous(world)
    joined = await by_identity(fresh, provider_a, subject)
    assert joined["customer"]["id"] == account.user["id"]
    (row,) = await world.stack.sql(
        "SELECT account_belongs_to::text AS owner FROM customers WHERE id = $1::text::uuid", fresh.user["id"]
    )
    assert row["owner"] == account.user["id"]  # the pointer is set, however many there are
    client = keep(device(world), joined)
    for request_id in paid:  # the oldest rows, but with a payment
        assert (await raw(client, "GET", f"{REQUESTS}/{request_id}"))[0] == 200
    expired = await world.stack.sql(
        """SELECT p.id::text FROM payment_requests p JOIN customers c ON c.id = p.customer_id
           WHERE c.account_belongs_to = $1::text::uuid AND p.status = 'expired'""",
        account.user["id"],
    )
    assert len(expired) == 5
    assert {(await raw(client, "GET", f"{REQUESTS}/{row['id']}"))[0] for row in expired} == {404}
    assert await ids_of(world, client) == NEWEST + 1 + len(paid)


async def ids_of(world: World, client: Client) -> int:
    """How many ids a caller has."""
    from core.customers import store
    from core.storage.database import Database

    database = await Database.connect(world.stack.database_url, size=1)
    try:
        return len(await store.ids_of(database, client.user["id"]))
    finally:
        await database.close()
