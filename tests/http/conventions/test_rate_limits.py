"""The general rate limit over two api processes: exact, fair, and in force without Valkey (docs/security.md)."""

import asyncio
import itertools
import json
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import aiohttp
import attrs
import jwt
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base import ids
from core.bus.buckets import Limit
from core.bus.rate_limit import TAKE
from tests.access.callers import bad_tokens
from tests.access.wire import Answer, ask
from tests.forked import CONSTANTS, PATIENT
from tests.stack import CALLBACK_TOKEN, Stack, World, refused, within
from tests.tiers import examples
from tests.unit.test_rate_limit_rules import GAPS, NOW, SET_BACK, Bucket
from tools.driving.throwaway import free_port
from tools.embedded.ownership import running

pytestmark = pytest.mark.anyio

BURST = 10
INTERVAL_S = 10  # six a minute: no test is long enough to be granted one more
ADDRESSES = itertools.count()
ORIGIN = "https://app.example.test"
NOTHING, ME, POLL = "/nothing/here", "/api/client/auth/me", "/api/client/mitras/availability"
WEBHOOK = "/api/shared/payment/webhooks/gateway"


@attrs.frozen
class TwoApiProcesses:
    """A service with two api processes that share one limit."""

    stack: Stack
    first: str
    second: str

    @property
    def both(self) -> list[str]:
        """Return their public addresses."""
        return [self.first, self.second]


def start_api(stack: Stack, key: str, **env: str) -> str:
    """Start a further api process; return its public address."""
    public, internal = free_port(), free_port()
    stack.start("api", key=key, PUBLIC_PORT=str(public), INTERNAL_PORT=str(internal), **env)
    stack.wait_ready("api", port=internal)
    return f"http://127.0.0.1:{public}"


@pytest.fixture(scope="module")
def two_processes() -> Iterator[TwoApiProcesses]:
    """Run a separate service, because the limit is low here and Valkey is killed."""
    made = Stack(
        RATE_LIMIT_PER_MINUTE=str(60 // INTERVAL_S), RATE_LIMIT_BURST=str(BURST),
        RATE_LIMIT_ADDRESS_PER_MINUTE=str(60 // INTERVAL_S), RATE_LIMIT_ADDRESS_BURST=str(BURST),
        OPERATOR_RATE_LIMIT_PER_MINUTE=str(2 * BURST), OPERATOR_SIGN_IN_PER_MINUTE=str(BURST),
        PUBLIC_CORS_ORIGINS=ORIGIN, **PATIENT,
    )  # fmt: skip
    yield TwoApiProcesses(made, made.addresses.public, start_api(made, "api2"))
    made.close()


def an_address() -> str:
    """Return an address that no client has used before."""
    block, host = divmod(next(ADDRESSES), 250)
    return f"100.64.{block}.{host + 1}"


class Visitor:
    """A client with an address, with a token or without."""

    def __init__(self, http: aiohttp.ClientSession, address: str | None = None, token: str | None = None) -> None:
        self._http = http
        self._headers = {"X-Forwarded-For": address or an_address()}
        self._token = token

    async def ask(
        self, base: str, path: str = NOTHING, method: str = "GET", *, body: Any = None, **headers: str
    ) -> Answer:
        """Send one request."""
        sent = {**self._headers, **headers}
        return await ask(self._http, base + path, method, token=self._token, headers=sent, body=body)

    async def storm(self, count: int, *bases: str, path: str = NOTHING) -> list[Answer]:
        """Send `count` requests concurrently, distributed over the processes."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.ask(bases[n % len(bases)], path)) for n in range(count)]
        return [task.result() for task in tasks]

    async def passes(self, count: int, *bases: str, path: str = NOTHING) -> int:
        """Return how many of `count` concurrent requests were within the limit."""
        return passed(await self.storm(count, *bases, path=path))


def passed(answers: list[Answer]) -> int:
    """Return how many answers were not rate-limited."""
    for answer in answers:
        assert (answer.status == 429) == (answer.code == "RATE_LIMITED"), answer
    return sum(answer.status != 429 for answer in answers)


async def a_customer(two_processes: TwoApiProcesses, http: aiohttp.ClientSession) -> str:
    """Return the token of a new customer."""
    answer = await Visitor(http).ask(two_processes.first, "/api/shared/auth/anonymous", "POST")
    assert answer.status == 201
    return answer.body["access_token"]


def known(two_processes: TwoApiProcesses, token: str) -> str:
    """Return the customer's token as if they had paid before it was issued."""
    kid, secret = two_processes.stack.env["JWT_SECRETS"].split(":")
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims.pop("newcomer") is True
    return jwt.encode(claims, secret, headers={"kid": kid})


@pytest.mark.slow
async def test_burst_is_exact_across_two_processes(two_processes: TwoApiProcesses, http: aiohttp.ClientSession) -> None:
    for _ in range(3):
        answers = await Visitor(http).storm(60, *two_processes.both)
        assert passed(answers) == BURST
        assert {answer.status for answer in answers} == {404, 429}


async def test_rate_limited_answer_has_retry_after_and_cors_headers(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    visitor = Visitor(http)
    await visitor.storm(BURST, *two_processes.both)
    answer = await visitor.ask(two_processes.second, Origin=ORIGIN)
    assert answer.said == (429, "RATE_LIMITED")
    assert 1 <= answer.body["error"]["retry_after_seconds"] <= INTERVAL_S
    assert answer.headers["Retry-After"] == str(answer.body["error"]["retry_after_seconds"])
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "Retry-After" in answer.headers["Access-Control-Expose-Headers"]
    foreign = await visitor.ask(two_processes.second, Origin="https://evil.example.test")
    assert foreign.said == (429, "RATE_LIMITED")
    assert "Access-Control-Allow-Origin" not in foreign.headers
    preflight = {"Origin": ORIGIN, "Access-Control-Request-Method": "GET"}
    assert (
        await visitor.ask(two_processes.first, ME, "OPTIONS", **preflight)
    ).status == 204  # preflights are charged to another bucket


async def test_refusal_by_address_limit_increments_its_metric(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    await Visitor(http).storm(BURST + 2, two_processes.first)
    async with http.get(f"{two_processes.stack.addresses.internal}/metrics") as answer:
        figures = await answer.text()
    counted = re.search(r'^sesi_limited_total\{limit="address"\} ([0-9.]+)$', figures, re.MULTILINE)
    assert counted is not None
    assert float(counted[1]) >= 2


async def test_known_user_has_one_bucket_across_addresses(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    token = await a_customer(two_processes, http)
    answers = [
        answer
        for _ in range(4)
        for answer in await Visitor(http, token=token).storm(8, *two_processes.both, path=ME)  # a new address each time
    ]
    assert passed(answers) == BURST
    assert {answer.status for answer in answers} == {200, 429}


async def test_second_token_in_a_request_does_not_raise_the_limit(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    token, others = await a_customer(two_processes, http), [await a_customer(two_processes, http) for _ in range(3)]

    async def status_of(other: str) -> int:
        headers = [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {other}")]
        async with http.get(two_processes.first + ME, headers=headers) as answer:
            return answer.status

    answers = [await status_of(other) for other in others for _ in range(BURST)]
    assert answers == [200] * BURST + [429] * (len(answers) - BURST)


async def test_rate_limited_request_is_logged_with_its_request_id(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    visitor, name = Visitor(http), ids.new_id()
    await visitor.storm(BURST, two_processes.first)
    answer = await visitor.ask(two_processes.first, **{"X-Request-Id": name})
    assert answer.said == (429, "RATE_LIMITED")
    lines = [json.loads(line) for line in two_processes.stack.log("api").splitlines() if name in line]
    assert [(line["event"], line["code"]) for line in lines] == [("request", "RATE_LIMITED")]


async def test_known_users_at_one_address_have_separate_buckets(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    address, tokens = an_address(), [known(two_processes, await a_customer(two_processes, http)) for _ in range(3)]
    for token in tokens:
        assert await Visitor(http, address, token).passes(BURST + 3, *two_processes.both, path=ME) == BURST
    assert await Visitor(http, address).passes(BURST + 3, *two_processes.both) == BURST
    assert await Visitor(http).passes(1, *two_processes.both) == 1


async def test_accounts_without_payment_share_the_bucket_of_their_address(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    address, tokens = an_address(), [await a_customer(two_processes, http) for _ in range(5)]
    visitors = [Visitor(http, address, token) for token in tokens]
    assert sum([await visitor.passes(6, *two_processes.both, path=ME) for visitor in visitors]) == BURST
    assert await Visitor(http, token=tokens[-1]).passes(BURST + 1, *two_processes.both, path=ME) == BURST  # still full


async def test_address_bucket_no_longer_counts_a_customer_who_has_paid(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    world, address = World(two_processes.stack), an_address()
    try:
        customer = world.client()
        customer._http.headers["X-Forwarded-For"] = an_address()
        await customer.sign_in_anonymously("Dewi")
        payment = await world.request(customer)
        await Visitor(http, address).storm(BURST, two_processes.first)
        payer = Visitor(http, address, customer.access_token)
        assert (await payer.ask(two_processes.first, ME)).status == 429
        assert (await world.webhook(payment))[0] == 200
        await world.until(lambda: payer.ask(two_processes.second, ME), lambda answer: answer.status == 200)
        fresh = await refresh(Visitor(http, address), two_processes.first, customer.refresh_token)
        assert fresh.status == 200
        assert "newcomer" not in jwt.decode(fresh.body["access_token"], options={"verify_signature": False})
        await world.leave_searches()
    finally:
        await world.close()


async def test_limited_address_still_admits_polls_heartbeats_refreshes_and_keys(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    address, customer = an_address(), await Visitor(http).ask(two_processes.first, "/api/shared/auth/anonymous", "POST")
    stranger = Visitor(http, address)
    await stranger.storm(BURST, two_processes.first)
    assert (await stranger.ask(two_processes.first)).status == 429
    assert (await Visitor(http, address, customer.body["access_token"]).ask(two_processes.first, POLL)).status == 200
    assert (await stranger.ask(two_processes.first, "/api/mitra/status/heartbeat", "POST")).status == 401
    assert (await stranger.ask(two_processes.first, "/.well-known/anything.json")).status == 404
    assert (await refresh(stranger, two_processes.first, customer.body["refresh_token"])).status == 200


async def refresh(visitor: Visitor, base: str, token: str | None) -> Answer:
    """Refresh with a token and return the answer."""
    return await visitor.ask(base, "/api/shared/auth/refresh", "POST", body={"refresh_token": token})


async def test_forged_refresh_token_counts_against_the_address(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    good = (await Visitor(http).ask(two_processes.first, "/api/shared/auth/anonymous", "POST")).body["refresh_token"]
    visitor = Visitor(http)
    forged = good[:-4] + ("AAAA" if not good.endswith("AAAA") else "BBBB")
    answers = [await refresh(visitor, two_processes.both[n % 2], forged) for n in range(BURST + 2)]
    assert [answer.status for answer in answers] == [401] * BURST + [429] * 2
    assert (await visitor.ask(two_processes.first)).status == 429
    assert (await refresh(visitor, two_processes.first, good)).status == 200


async def test_eleventh_refresh_in_a_minute_is_429_and_repeats_do_not_count(stack: Stack, world: World) -> None:
    """Runs on the service without low limits, so that no other limit refuses."""
    customer = await world.customer()
    tokens = [customer.refresh_token]
    for _ in range(10):
        for _ in range(3):  # the successor's answer was lost twice
            fresh = await customer.post("/api/shared/auth/refresh", {"refresh_token": tokens[-1]})
        tokens.append(fresh["refresh_token"])
    error = await refused(customer.post("/api/shared/auth/refresh", {"refresh_token": tokens[-1]}), 429, "RATE_LIMITED")
    assert 1 <= error["retry_after_seconds"] <= 60
    repeated = await customer.post("/api/shared/auth/refresh", {"refresh_token": tokens[-2]})
    assert repeated["refresh_token"] == tokens[-1]  # refused, but not revoked
    customer.access_token = repeated["access_token"]
    assert await customer.get(ME)


async def test_anonymous_sign_ins_of_an_address_are_limited_per_hour(stack: Stack, world: World) -> None:
    address = {"X-Forwarded-For": an_address()}
    client = world.client()
    async with world.setting(anonymous_max_per_address_per_hour=0):
        await refused(client.call("POST", "/api/shared/auth/anonymous", headers=address), 429, "RATE_LIMITED")
    async with world.setting(anonymous_max_per_address_per_hour=3):
        for _ in range(3):
            assert await client.call("POST", "/api/shared/auth/anonymous", headers=address)
        error = await refused(client.call("POST", "/api/shared/auth/anonymous", headers=address), 429, "RATE_LIMITED")
        assert 3_500 < error["retry_after_seconds"] <= 3_600  # three in any hour, whatever their times
        assert await client.call("POST", "/api/shared/auth/anonymous", headers={"X-Forwarded-For": an_address()})


async def test_anonymous_sign_ins_of_all_addresses_are_limited(
    stack: Stack, world: World, http: aiohttp.ClientSession
) -> None:
    """Ten times the limit of an address, half of it at once; no network uses up all of it."""

    async def sign_ins(network: str, count: int) -> int:
        granted = 0
        for n in range(count):
            url, headers = (
                f"{stack.addresses.public}/api/shared/auth/anonymous",
                {"X-Forwarded-For": network.format(n=n)},
            )
            async with http.post(url, headers=headers) as answer:
                assert answer.status in (201, 429)
                granted += answer.status == 201
        return granted

    async with world.setting(anonymous_max_per_address_per_hour=8):  # 41 at once of 80
        assert await sign_ins("10.81.1.{n}", 40) == 20
        assert await sign_ins("2001:db8:81:{n:x}::1", 6) == 2
        assert sum([await sign_ins(f"10.82.{m}.{{n}}", 6) for m in range(12)]) <= 20
        assert await sign_ins("10.83.1.{n}", 2) == 0


async def test_invalid_token_counts_against_the_address(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    address, good = an_address(), known(two_processes, await a_customer(two_processes, http))
    bad = bad_tokens(two_processes.stack, good)
    answers = [await Visitor(http, address, token).ask(two_processes.first, ME) for token in bad.values()]
    assert len(answers) > BURST
    assert [answer.status for answer in answers] == [401] * BURST + [429] * (len(answers) - BURST)
    assert (await Visitor(http, address).ask(two_processes.second)).status == 429
    assert (await Visitor(http, address, good).ask(two_processes.second, ME)).status == 200


async def test_ipv6_48_block_has_ten_times_the_limit_of_a_64_network(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    block = "2001:db8:1"
    granted = [await Visitor(http, f"{block}:{n:x}::1").passes(BURST + 1, *two_processes.both) for n in range(1, 13)]
    assert granted[:10] == [BURST] * 10
    assert max(granted[10:]) < BURST  # one is granted again after a second


async def test_ipv6_64_network_is_one_address_and_mapped_ipv4_is_ipv4(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    network = "2001:db8:2:1"
    hosts = [f"{network}::{n:x}" for n in range(1, 5)] + [f"{network}:ffff:0:0:1", f"{network}:0:0:0:5".upper()]
    answers = [(await Visitor(http, host).ask(base)).status for host in hosts for base in two_processes.both]
    assert answers == [404] * BURST + [429] * 2
    neighbour = network[:-1] + ("0" if network[-1] != "0" else "1")
    assert (await Visitor(http, f"{neighbour}::1").ask(two_processes.first)).status == 404
    one, other = an_address(), an_address()
    assert await Visitor(http, f"::ffff:{one}").passes(BURST + 1, *two_processes.both) == BURST
    assert (await Visitor(http, one).ask(two_processes.first)).status == 429
    assert (await Visitor(http, f"::ffff:{other}").ask(two_processes.first)).status == 404


async def test_client_address_is_the_one_added_by_the_trusted_proxy(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    real = an_address()
    for n in range(BURST):  # the client wrote the first address itself
        assert (await Visitor(http, f"{an_address()}, {real}").ask(two_processes.both[n % 2])).status == 404
    assert (await Visitor(http, f"{an_address()}, {real}").ask(two_processes.first)).status == 429


async def test_availability_poll_has_a_separate_limit(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    loop = asyncio.get_running_loop()
    for first, second in ((POLL, ME), (ME, POLL)):
        visitor, began = Visitor(http, token=await a_customer(two_processes, http)), loop.time()
        count = {POLL: 80, ME: 20}
        seen = {path: await visitor.passes(count[path], *two_processes.both, path=path) for path in (first, second)}
        assert seen[ME] == BURST
        assert 60 <= seen[POLL] <= 60 + 1 + (loop.time() - began)  # one is granted again each second
        [refusal] = [answer for answer in [await visitor.ask(two_processes.first, ME)] if answer.status == 429]
        assert refusal.code == "RATE_LIMITED"


async def test_probes_and_webhook_are_never_rate_limited(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    visitor = Visitor(http)
    await visitor.storm(BURST, *two_processes.both)
    assert await visitor.passes(40, *two_processes.both, path="/healthz") == 40
    async with asyncio.TaskGroup() as group:
        calls = [
            group.create_task(visitor.ask(base, WEBHOOK, "POST", **{"X-Callback-Token": CALLBACK_TOKEN}))
            for base in two_processes.both * 15
        ]
    assert {call.result().status for call in calls} == {400}  # admitted, and refused for its content
    assert (await visitor.ask(two_processes.first)).status == 429


async def test_internal_listener_limits_operators_and_sign_ins_per_address(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    base, world = two_processes.stack.addresses.internal, World(two_processes.stack)
    operator = await world.operator()
    passes = await Visitor(http, token=operator.access_token).passes(3 * BURST, base, path="/internal/auth/me")
    assert 1 <= passes <= BURST  # the requests of `World` count as well
    assert await Visitor(http).passes(60, base, path="/internal/auth/me") == BURST  # without a token, of one address
    body = {"email": "nobody@example.test", "password": "not the password"}
    stranger = Visitor(http)
    answers = [await stranger.ask(base, "/internal/auth/login", "POST", body=body) for _ in range(BURST + 1)]
    assert {answer.code for answer in answers[:-1]} <= {"LOGIN_INVALID", "ACCOUNT_LOCKED", "RATE_LIMITED"}
    assert answers[-1].said == (429, "RATE_LIMITED")
    with redis.Redis.from_url(two_processes.stack.redis_url) as client:
        client.flushall()  # resets the limits for later tests
    await world.close()


async def test_rate_limit_tokens_return_on_the_service_clock(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    # Only rate limits are tested here: otherwise all processes of a service need one time scale. A token returns after
    # 30 s, half a real second.
    slow = {"SESI_TIME_SCALE": "60", "RATE_LIMIT_ADDRESS_PER_MINUTE": "2", "RATE_LIMIT_ADDRESS_BURST": "3"}
    base = start_api(two_processes.stack, "slow", **slow)
    loop, visitor = asyncio.get_running_loop(), Visitor(http)
    began = loop.time()
    answers = [await visitor.ask(base) for _ in range(3)]
    assert passed(answers) == 3
    refusal = await visitor.ask(base)
    while refusal.status != 429:  # on a busy machine another token had returned
        refusal = await visitor.ask(base)
    assert 1 <= refusal.body["error"]["retry_after_seconds"] <= 30
    granted = 0
    while granted < 4:
        granted += (await visitor.ask(base)).status != 429
        await asyncio.sleep(0.02)
    assert 1.5 < loop.time() - began < 8  # at real speed it would be two minutes
    two_processes.stack.stop("slow")


@pytest.mark.slow
async def test_very_high_limit_is_exact(two_processes: TwoApiProcesses, http: aiohttp.ClientSession) -> None:
    base = start_api(
        two_processes.stack, "high", RATE_LIMIT_ADDRESS_PER_MINUTE="600000", RATE_LIMIT_ADDRESS_BURST="2000"
    )
    visitor = Visitor(http)
    assert sum([await visitor.passes(100, base) for _ in range(20)]) == 2_000
    two_processes.stack.stop("high")


# -- Valkey


async def limit_is_common(two_processes: TwoApiProcesses, http: aiohttp.ClientSession) -> bool:
    """Return whether both processes share the limit, tried with a new address."""
    visitor = Visitor(http)
    return await visitor.passes(BURST, two_processes.first) + await visitor.passes(BURST, two_processes.second) == BURST


async def becomes_common(two_processes: TwoApiProcesses, http: aiohttp.ClientSession) -> None:
    """Wait until both processes share the limit again."""
    async with asyncio.timeout(30):
        while not await limit_is_common(two_processes, http):
            pass


async def check_limits_apply_alone(two_processes: TwoApiProcesses, http: aiohttp.ClientSession) -> None:
    """Check that each process applies the limit alone, and that no answer takes long."""
    for base in two_processes.both:
        await Visitor(http).ask(base)  # the first request may be the one that detects the failure
    visitor = Visitor(http)
    answers = [answer for _ in range(2) for base in two_processes.both for answer in await visitor.storm(20, base)]
    assert passed(answers) == 2 * BURST
    assert max(answer.seconds for answer in answers) < within(1)
    refusal = await visitor.ask(two_processes.first)
    assert refusal.said == (429, "RATE_LIMITED")
    assert 1 <= refusal.body["error"]["retry_after_seconds"] <= INTERVAL_S


async def test_each_process_applies_the_limit_alone_without_valkey(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    await becomes_common(two_processes, http)
    servers = running(two_processes.stack.root)
    assert servers is not None
    os.kill(servers.valkey_pid, signal.SIGKILL)
    try:
        answers = await Visitor(http).storm(20, *two_processes.both)
        assert BURST <= passed(answers) <= 2 * BURST
        assert max(answer.seconds for answer in answers) < within(1)
        await check_limits_apply_alone(two_processes, http)
        token = await a_customer(two_processes, http)
        assert await Visitor(http, token=token).passes(3 * BURST, two_processes.first, path=ME) == BURST
    finally:
        assert await asyncio.to_thread(two_processes.stack.servers.watch) == ["valkey"]
    await becomes_common(two_processes, http)


@pytest.mark.slow
async def test_frozen_valkey_delays_no_request(two_processes: TwoApiProcesses, http: aiohttp.ClientSession) -> None:
    stack, default = two_processes.stack, {CONSTANTS: "{}"}
    both = TwoApiProcesses(stack, *(start_api(stack, key, **default) for key in ("default", "default2")))
    await becomes_common(both, http)
    servers = running(stack.root)
    assert servers is not None
    os.kill(servers.valkey_pid, signal.SIGSTOP)
    try:
        answers: list[Answer] = []
        began = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - began < 2.5:  # longer than the interval between attempts
            answers += await Visitor(http).storm(8, *both.both)
        assert max(answer.seconds for answer in answers) < within(1)
        assert passed(answers) == len(answers)
        await check_limits_apply_alone(both, http)
    finally:
        os.kill(servers.valkey_pid, signal.SIGCONT)
    await becomes_common(both, http)
    for key in ("default", "default2"):
        stack.stop(key)


async def test_flushed_valkey_grants_at_most_one_more_burst(
    two_processes: TwoApiProcesses, http: aiohttp.ClientSession
) -> None:
    await becomes_common(two_processes, http)
    visitor = Visitor(http)
    assert await visitor.passes(2 * BURST, *two_processes.both) == BURST
    with redis.Redis.from_url(two_processes.stack.redis_url) as client:
        client.flushall()
        client.script_flush()
    assert await visitor.passes(2 * BURST, *two_processes.both) == BURST


# -- the script

LIMITS = st.builds(Limit, name=st.just("test"), per_minute=st.integers(1, 1_000_000), burst=st.integers(1, 200))
# Batches: µs since the previous batch, then for each request a bucket and the number of tokens.
BATCHES = st.lists(
    st.tuples(
        GAPS,
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 20)), min_size=1, max_size=6),
    ),
    max_size=12,
)


@given(LIMITS, BATCHES)
@settings(max_examples=examples(100), deadline=None, derandomize=True, database=None)
def test_rate_limit_script_grants_what_a_token_bucket_does(
    two_processes: TwoApiProcesses, limit: Limit, batches: list[tuple[int, list[tuple[int, int]]]]
) -> None:
    prefix, now = f"test:{ids.new_id()}", NOW
    buckets = {n: Bucket(limit) for n in range(3)}
    with redis.Redis.from_url(two_processes.stack.redis_url) as client:
        for gap, questions in batches:
            now += gap
            keys = [f"{prefix}:{which}" for which, _ in questions]
            args: list[Any] = [now, 1.0, SET_BACK]
            for _, wanted in questions:
                args += [1, wanted, limit.interval, limit.tolerance]
            answers = client.eval(TAKE, len(keys), *keys, *args)
            granted = [buckets[which].take(now, wanted) for which, wanted in questions]
            assert answers == [part for one in granted for part in (one, int(one < 0))]
            for which, key in {which: key for (which, _), key in zip(questions, keys, strict=True)}.items():
                full_in_ms = (limit.burst - buckets[which].tokens) * limit.interval / 1000
                assert client.pttl(key) > full_in_ms  # the key lives until its bucket is full
