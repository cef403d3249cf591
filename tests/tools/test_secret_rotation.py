"""Secrets are rotated by the steps of docs/secrets.md, without a lost sign-in, webhook call or message on the bus."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
import redis

from core.bus.bus import Bus
from core.settings.settings import variables
from tests.faults.people import retry
from tests.stack import CALLBACK_TOKEN, Stack, World, refused

pytestmark = pytest.mark.anyio
PAGE = Path(__file__).parents[2] / "docs" / "secrets.md"
OLD, NEW = f"old:{'0123456789abcdef' * 4}", f"new:{'fedcba9876543210' * 4}"
NEW_TOKEN = "another-callback-token-for-the-tests"
ME = "/api/client/auth/me"
MORE_SECRETS = {"FCM_CREDENTIALS_FILE"}  # a file that the settings only name


def secret_variables() -> set[str]:
    """Return the variables that hold or name secrets."""
    return {field.name.upper() for field in variables() if field.metadata["secret"]} | MORE_SECRETS


def test_page_has_a_row_for_every_secret_setting() -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)} >= secret_variables()


@pytest.fixture
def stack() -> Iterator[Stack]:
    """Yield a service with the old secrets, of which no process has started."""
    made = Stack(only_database=True, JWT_SECRETS=OLD)
    yield made
    made.close()


def start(stack: Stack, *names: str, **env: str) -> None:
    """Start processes with these settings, and wait until they are ready."""
    stack.env |= env
    for name in names:
        stack.start(name, wait=False)
    for name in names:
        stack.wait_ready(name)


def replace(stack: Stack, *names: str, **env: str) -> None:
    """Stop processes and start them with other settings, as a supervisor does."""
    stack.env |= env
    for name in names:
        assert stack.stop(name) == 0
        stack.start(name)


async def test_jwt_secret_is_rotated_without_signing_users_out(stack: Stack) -> None:
    start(stack, "api", "realtime")
    world = World(stack, heartbeats=False)
    early, late = await world.customer("Early"), await world.customer("Late")
    forgotten, mitra, operator = await world.customer("Forgotten"), await world.mitra(), await world.operator()
    for secrets in (f"{OLD},{NEW}", f"{NEW},{OLD}"):
        replace(stack, "api", "realtime", JWT_SECRETS=secrets)
        assert (await retry(lambda: early.call("GET", ME)))["display_name"] == "Early"
        for user in (early, late, mitra, operator):
            await retry(user.refresh)
    replace(stack, "api", "realtime", JWT_SECRETS=NEW)
    for user in (early, late, mitra, operator):
        await retry(user.refresh)
    await refused(retry(forgotten.refresh), 401, "REFRESH_INVALID")  # it did not refresh between the steps
    assert (await late.get(ME))["display_name"] == "Late"
    await mitra.open("pairing")
    await world.close()


async def test_processes_of_both_steps_accept_the_tokens_of_each_other(stack: Stack) -> None:
    start(stack, "realtime", JWT_SECRETS=f"{OLD},{NEW}")
    start(stack, "api", JWT_SECRETS=f"{NEW},{OLD}")  # realtime is still at the step before
    world = World(stack, heartbeats=False)
    customer = await world.customer()
    await customer.open("pairing")
    await world.close()


async def test_callback_token_is_rotated_without_losing_a_call(stack: Stack) -> None:
    start(stack, "api")
    world = World(stack, heartbeats=False)
    customer = await world.customer()

    async def confirmed(token: str) -> bool:
        payment = await retry(lambda: world.request(customer))
        status, _ = await world.webhook(payment, token=token)
        await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
        return status == 200

    assert (await confirmed(CALLBACK_TOKEN), await confirmed(NEW_TOKEN)) == (True, False)
    replace(stack, "api", GATEWAY_CALLBACK_TOKEN=f"{NEW_TOKEN},{CALLBACK_TOKEN}")
    assert (await confirmed(CALLBACK_TOKEN), await confirmed(NEW_TOKEN)) == (True, True)
    replace(stack, "api", GATEWAY_CALLBACK_TOKEN=NEW_TOKEN)
    assert (await confirmed(CALLBACK_TOKEN), await confirmed(NEW_TOKEN)) == (False, True)
    await world.close()


async def reaches(url: str) -> bool:
    """Return whether the bus accepts a URL."""
    bus = Bus(url)
    try:
        await bus.find()
        return await bus.ping()
    finally:
        await bus.close()


async def test_redis_accepts_both_passwords_between_the_steps(stack: Stack) -> None:
    admin = redis.Redis.from_url(stack.redis_url)
    old, new = (stack.redis_url.replace("redis://", f"redis://sesi:{word}@") for word in ("old-word", "new-word"))
    admin.acl_setuser("sesi", enabled=True, passwords=["+old-word"], keys=["*"], channels=["*"], commands=["+@all"])
    assert (await reaches(old), await reaches(new)) == (True, False)
    start(stack, "jobs", REDIS_URL=old)
    admin.execute_command("ACL", "SETUSER", "sesi", ">new-word")
    assert (await reaches(old), await reaches(new)) == (True, True)
    replace(stack, "jobs", REDIS_URL=new)
    admin.execute_command("ACL", "SETUSER", "sesi", "<old-word")
    assert (await reaches(old), await reaches(new)) == (False, True)
    admin.close()


async def test_second_login_role_replaces_the_password_of_the_database(stack: Stack) -> None:
    await stack.sql("CREATE ROLE sesi_run NOLOGIN")
    await stack.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO sesi_run")
    for name in ("sesi_a", "sesi_b"):
        await stack.sql(f"CREATE ROLE {name} LOGIN IN ROLE sesi_run")
    first, second = (stack.database_url.replace("postgres@", f"{name}@") for name in ("sesi_a", "sesi_b"))
    start(stack, "api", "realtime", DATABASE_URL=first)
    world = World(stack, heartbeats=False)
    customer = await world.customer()
    replace(stack, "api", "realtime", DATABASE_URL=second)
    await stack.sql("DROP ROLE sesi_a")
    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
        await asyncio.wait_for(asyncpg.connect(first), 5)
    assert (await retry(lambda: customer.get(ME)))["display_name"] == "Dewi"
    await world.close()
