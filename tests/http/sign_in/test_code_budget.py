"""The hourly budget of codes, and the limit of refused numbers for one address (docs/product.md#phone-codes)."""

import pytest
import redis

from core.accounts.logins.otp import REFUSED_NUMBERS
from tests.http.sign_in.people import (
    ASK,
    MITRA_ASK,
    all_at_once,
    anonymous,
    ask,
    by_phone,
    device,
    forget_codes,
    new_address,
    new_number,
    refusal,
    verify,
)
from tests.stack import World, refused
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

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


@pytest.mark.slow
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
        owners = outcomes(await all_at_once([ask(device(world), number) for number in known[:6]]))
        assert owners == [None] * 6
        status, code, error = await refusal(device(world), "POST", ASK, {"phone": new_number()})
        assert (status, code) == (429, "OTP_BUDGET_EXCEEDED")
        assert 3500 < error["retry_after_seconds"] <= 3600
        assert await limited(world, "otp_budget") == before + 16
        # A code that was not sent is taken out of the budget, and so is one that is an hour old.
        (row,) = await world.stack.sql(
            """UPDATE otp_requests SET created_at = created_at - interval '1 hour'
               WHERE id = (SELECT id FROM otp_requests WHERE NOT known_phone AND created_at > now() - interval '1 hour' LIMIT 1)
               RETURNING id"""
        )
        assert row["id"]
        later = new_number()
        world.stack.inbox.fail = True
        try:
            await refused(ask(device(world), later), 502, "OTP_DELIVERY_FAILED")
        finally:
            world.stack.inbox.fail = False
        assert (await ask(device(world), later))["otp_request_id"]
        await refused(ask(device(world), new_number()), 429, "OTP_BUDGET_EXCEEDED")
    async with world.setting(otp_max_per_hour=0):
        assert (await ask(device(world), new_number()))["otp_request_id"]


async def test_known_callers_are_never_refused_by_the_budget_and_strangers_may_not_use_theirs(world: World) -> None:
    customers, mitras = [new_number() for _ in range(5)], [new_number() for _ in range(2)]
    for number in customers:
        await by_phone(world, device(world), number)
    operator = await world.operator()
    for number in mitras:
        await operator.post("/internal/mitras", {"phone": number, "display_name": "Ayu", "is_active": True})
    upgrading, signed_in = [await anonymous(world) for _ in range(3)], device(world)
    signed_in._keep(await by_phone(world, signed_in, new_number()))
    ended = await anonymous(world)
    await ended.post("/api/shared/auth/logout")
    await world.stack.sql(FORGET_ALL)
    async with world.setting(otp_max_per_hour=2):
        known = [ask(device(world), number) for number in (*customers, *mitras)]
        known += [ask(one, new_number()) for one in (*upgrading, signed_in)]
        assert outcomes(await all_at_once(known)) == [None] * 11
        for stranger in (device(world), ended):
            await refused(ask(stranger, new_number()), 429, "OTP_BUDGET_EXCEEDED")
        # The limits of a phone bind them all the same.
        await refused(ask(upgrading[0], customers[0]), 429, "OTP_COOLDOWN")
        asked = await ask(upgrading[1], new_number())
        answer = await verify(upgrading[1], asked, await world.stack.inbox.code_of(asked["otp_request_id"]))
        assert answer["customer"]["id"] == upgrading[1].user["id"]


async def test_token_makes_its_caller_known_for_five_requests_an_hour(world: World) -> None:
    """Anonymous accounts are free, so that each could otherwise send codes to any number of strangers' phones."""
    await world.stack.sql(FORGET_ALL)
    client, known = await anonymous(world), new_number()
    await by_phone(world, device(world), known)
    before = await limited(world, "otp_account")
    async with world.setting(otp_max_per_hour=1, otp_max_per_ip_per_hour=100):
        sent = outcomes(await all_at_once([ask(client, new_number()) for _ in range(12)]))
        assert set(sent) == {None, "OTP_BUDGET_EXCEEDED"}
        assert 3 <= sent.count(None) <= 5
        assert await limited(world, "otp_account") > before
        await forget_codes(world, known)
        assert (await ask(client, known))["otp_request_id"]


async def test_requests_of_an_address_are_limited_even_if_they_are_refused(world: World) -> None:
    """While the budget is used up, a refusal tells that a number has no account: no list of numbers can be tested."""
    client, number = device(world), new_number()
    async with world.setting(otp_max_per_ip_per_hour=2):
        answers = outcomes(await all_at_once([ask(client, number, path=path) for path in (ASK, MITRA_ASK) * 15]))
        assert set(answers) == {None, "OTP_COOLDOWN", "RATE_LIMITED"}
        assert 10 <= len(answers) - answers.count("RATE_LIMITED") <= 20  # half of 20 at once
        _, code, error = await refusal(client, "POST", ASK, {"phone": new_number()})
        assert (code, 1 <= error["retry_after_seconds"] <= 3600) == ("RATE_LIMITED", True)
        assert (await ask(device(world), new_number()))["otp_request_id"]


@pytest.mark.slow
async def test_requests_for_unknown_mitras_are_limited_over_all_addresses_and_known_ones_are_not(world: World) -> None:
    customer, mitra = new_number(), new_number()
    await by_phone(world, device(world), customer)
    await (await world.operator()).post("/internal/mitras", {"phone": mitra, "display_name": "Ayu", "is_active": True})
    await world.stack.sql(FORGET_ALL)
    rows = "SELECT count(*)::int AS n FROM otp_requests WHERE user_type = 'mitra'"
    before = (await world.stack.sql(rows))[0]["n"]
    answers: list[str | None] = []
    for network in range(30):  # each a /24 with as many requests as one address may have
        clients = [device(world) for _ in range(3)]
        for n, client in enumerate(clients):
            client._http.headers["X-Forwarded-For"] = f"10.77.{network}.{n}"
        calls = [ask(clients[n % 3], new_number(), path=MITRA_ASK) for n in range(30)]
        answers += outcomes(await all_at_once(calls))
    assert set(answers) == {None, "RATE_LIMITED"}
    assert answers.count(None) == (await world.stack.sql(rows))[0]["n"] - before
    assert 480 <= answers.count(None) <= 560  # half of 1,000 at once
    assert await limited(world, "otp_unknown_mitras") > 0
    for number in (mitra, customer):
        assert (await ask(device(world), number, path=MITRA_ASK))["otp_request_id"]
    with redis.Redis.from_url(world.stack.redis_url) as client:  # other tests have unknown mitras, too
        client.delete(*client.scan_iter("sesi:{rate}:otp_unknown_mitras*"))


def devices_of(world: World, network: str, count: int) -> list[Device]:
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
    known = new_number()
    await by_phone(world, device(world), known)
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


async def test_address_is_limited_after_thirty_refused_numbers(world: World) -> None:
    address, inbox = new_address(), world.stack.inbox

    def at_the_address() -> Device:
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
