"""The hourly budget of codes, and the limit of refused numbers for one address (docs/product.md#phone-codes)."""

import pytest

from core.logins.otp import REFUSED_NUMBERS
from tests.http.sign_in.people import (
    ASK,
    all_at_once,
    anonymous,
    ask,
    by_phone,
    device,
    forget_codes,
    new_address,
    new_number,
    refusal,
)
from tests.stack import World, refused
from tools.client import Client, Refused

pytestmark = pytest.mark.anyio

FORGET_ALL = "UPDATE otp_requests SET created_at = created_at - interval '2 hours'"


def outcomes(answers: list[object]) -> list[str | None]:
    """Return each call's refusal code, in the order of the calls; None means that a code was sent."""
    return [answer.code if isinstance(answer, Refused) else None for answer in answers]


async def limited(world: World, name: str) -> float:
    """Return how often a limit has refused, from the metrics."""
    async with world.client()._http.get(f"http://127.0.0.1:{world.stack.ports['INTERNAL']}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    found = [float(line.split()[1]) for line in lines if line.startswith(f'sesi_limited_total{{limit="{name}"}}')]
    return sum(found)


async def test_budget_reserves_half_for_phones_with_an_account(world: World) -> None:
    known = [new_number() for _ in range(12)]
    for number in known:
        await by_phone(world, device(world), number)
    await world.stack.sql(FORGET_ALL)
    before = await limited(world, "otp_budget")
    async with world.setting(otp_max_per_hour=11):
        strangers = outcomes(await all_at_once([ask(device(world), new_number()) for _ in range(20)]))
        assert strangers.count(None) == 5
        assert strangers.count("OTP_BUDGET_EXCEEDED") == 15
        owners = outcomes(await all_at_once([ask(device(world), number) for number in known]))
        assert owners.count(None) == 6
        assert owners.count("OTP_BUDGET_EXCEEDED") == 6
        status, code, error = await refusal(
            device(world), "POST", ASK, {"phone": known[owners.index("OTP_BUDGET_EXCEEDED")]}
        )
        assert (status, code) == (429, "OTP_BUDGET_EXCEEDED")
        assert 3500 < error["retry_after_seconds"] <= 3600
        assert await limited(world, "otp_budget") == before + 22
        # A code that was not sent is taken out of the budget, and so is one that is an hour old.
        await world.stack.sql(
            "UPDATE otp_requests SET created_at = created_at - interval '1 hour' WHERE phone = $1",
            known[owners.index(None)],
        )
        later = known[owners.index("OTP_BUDGET_EXCEEDED")]
        world.stack.inbox.fail = True
        try:
            await refused(ask(device(world), later), 502, "OTP_DELIVERY_FAILED")
        finally:
            world.stack.inbox.fail = False
        assert (await ask(device(world), later))["otp_request_id"]
        await refused(ask(device(world), new_number()), 429, "OTP_BUDGET_EXCEEDED")
    async with world.setting(otp_max_per_hour=0):
        assert (await ask(device(world), new_number()))["otp_request_id"]


async def test_phones_with_an_account_may_use_the_whole_budget(world: World) -> None:
    known = [new_number() for _ in range(6)]
    for number in known:
        await by_phone(world, device(world), number)
    await world.stack.sql(FORGET_ALL)
    async with world.setting(otp_max_per_hour=4):
        assert outcomes(await all_at_once([ask(device(world), number) for number in known])).count(None) == 4
        await refused(ask(device(world), new_number()), 429, "OTP_BUDGET_EXCEEDED")


def devices_of(world: World, network: str, count: int) -> list[Client]:
    """Return devices with different addresses of a network, such as `2001:db8:{n:x}::7`."""
    made = [device(world) for _ in range(count)]
    for n, one in enumerate(made, 1):
        one._http.headers["X-Forwarded-For"] = network.format(n=n)
    return made


async def sent_to(world: World, network: str, count: int) -> int:
    """Request codes for new numbers from one network at the same time; return how many were sent."""
    answers = outcomes(await all_at_once([ask(one, new_number()) for one in devices_of(world, network, count)]))
    assert set(answers) <= {None, "OTP_BUDGET_EXCEEDED"}
    return answers.count(None)


async def test_one_network_never_uses_up_the_budget_of_strangers(world: World) -> None:
    known, paid = new_number(), new_number()
    await by_phone(world, device(world), known)
    payer = await anonymous(world)
    await world.paid(payer)
    payer._keep(await by_phone(world, payer, paid))
    await world.stack.sql(FORGET_ALL)
    async with world.setting(otp_max_per_hour=80):  # 40 for strangers; a /48 has 2 of them, a /24 has 4
        # The shares bind once more than half is used, so that carriers' customers are admitted on a quiet day.
        assert await sent_to(world, "2001:db8:4:{n:x}::7", 45) == 21
        assert await limited(world, "otp_budget_share") >= 24
        _, code, error = await refusal(
            devices_of(world, "2001:db8:4:ff::7", 1)[0], "POST", ASK, {"phone": new_number()}
        )
        assert (code, 3400 < error["retry_after_seconds"] <= 3600) == ("OTP_BUDGET_EXCEEDED", True)
        assert await sent_to(world, "2001:db8:5:{n:x}::7", 6) == 2
        assert await sent_to(world, "198.51.100.{n}", 8) == 4
        # A phone with an account is not counted in a network.
        assert (await ask(devices_of(world, "2001:db8:4:fe::7", 1)[0], known))["otp_request_id"]
        assert await sent_to(world, "10.{n}.7.7", 15) == 13
        await refused(ask(device(world), new_number()), 429, "OTP_BUDGET_EXCEEDED")
    await world.stack.sql(
        "UPDATE otp_requests SET created_at = created_at - interval '2 minutes' WHERE phone = $1", known
    )
    async with world.setting(otp_max_per_hour=2):  # is used up
        await refused(ask(device(world), known), 429, "OTP_BUDGET_EXCEEDED")
        assert (await ask(device(world), paid))["otp_request_id"]  # of an account that paid


async def test_address_is_limited_after_thirty_refused_numbers(world: World) -> None:
    address, inbox = new_address(), world.stack.inbox

    def at_the_address() -> Client:
        made = device(world)
        made._http.headers["X-Forwarded-For"] = address
        return made

    numbers = [new_number() for _ in range(REFUSED_NUMBERS + 20)]
    inbox.refused_numbers.update(numbers)
    async with world.setting(otp_max_per_ip_per_hour=1_000):
        # Concurrent requests count as refused until the provider has answered.
        found = outcomes(await all_at_once([ask(at_the_address(), number) for number in numbers]))
        while found.count("OTP_DELIVERY_FAILED") < REFUSED_NUMBERS:
            number = new_number()
            inbox.refused_numbers.add(number)
            found += outcomes(await all_at_once([ask(at_the_address(), number)]))
        assert found.count("OTP_DELIVERY_FAILED") == REFUSED_NUMBERS
        assert set(found) == {"OTP_DELIVERY_FAILED", "OTP_RATE_LIMIT_IP"}
        good = new_number()
        _, code, error = await refusal(at_the_address(), "POST", ASK, {"phone": good})
        assert code == "OTP_RATE_LIMIT_IP"
        assert 3500 < error["retry_after_seconds"] <= 3600
        assert await limited(world, "otp_refused_numbers") > 0
        assert (await ask(device(world), good))["otp_request_id"]
    await forget_codes(world, good)


async def test_codes_of_killed_processes_count_as_refused_for_30_seconds(world: World) -> None:
    at_the_address = device(world)
    address = at_the_address._http.headers["X-Forwarded-For"]
    left = """INSERT INTO otp_requests (id, phone, ip_address, user_type, channel, created_at, expires_at)
      SELECT gen_random_uuid(), '+62812' || n, $1, 'customer', 'sms', now() - make_interval(secs => $2), now()
      FROM generate_series(1, $3) AS n"""
    async with world.setting(otp_max_per_ip_per_hour=1_000):
        await world.stack.sql(left, address, 31.0, REFUSED_NUMBERS)
        assert (await ask(at_the_address, new_number()))["otp_request_id"]
        await world.stack.sql(left, address, 1.0, REFUSED_NUMBERS)
        await refused(ask(at_the_address, new_number()), 429, "OTP_RATE_LIMIT_IP")
    await world.stack.sql("DELETE FROM otp_requests WHERE ip_address = $1", address)
