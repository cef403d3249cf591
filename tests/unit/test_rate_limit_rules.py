"""The arithmetic of the rate limit, compared with a token bucket in exact fractions (docs/security.md)."""

import asyncio
import math
from collections import Counter
from fractions import Fraction

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.base.errors import Kind
from core.base.shares import PART_OF_24, network_of
from core.bus import rate_limit
from core.bus.buckets import Charge, Charges, Limit, charges_of_address, charges_of_budget, hourly_limit
from core.bus.bus import Bus
from core.bus.rate_limit import Answer, RateLimit, RateLimited, _Question
from core.settings.environment import read

HOUR = 3_600_000_000  # µs
NOW = 1_800_000_000_000_000  # µs; as large as real timestamps, where a float has steps of a quarter
SET_BACK = 5_000_000
# µs since the previous request; negative: the request arrived out of order, or a clock is behind or was set back.
GAPS = st.one_of(st.just(0), st.integers(0, 90_000_000), st.integers(-3_000_000, -1), st.integers(-90_000_000, -1))
STEPS = st.lists(st.tuples(GAPS, st.integers(0, 2)), max_size=60)  # with the number of the bucket
LIMITS = st.builds(Limit, name=st.just("test"), per_minute=st.integers(1, 1_000_000), burst=st.integers(1, 40))


@attrs.define
class Bucket:
    """A bucket that holds `burst` tokens, gains one each interval, and gives one for each request.

    Its time does not go back unless the clock was set back.
    """

    limit: Limit
    tokens: Fraction = attrs.field(init=False)
    at: int = 0

    def __attrs_post_init__(self) -> None:
        self.tokens = Fraction(self.limit.burst)

    def take(self, now: int, wanted: int = 1) -> int:
        """Return how many tokens were granted, or minus the µs until the next one is available."""
        if self.at > now + SET_BACK:
            self.at = now
        at = max(now, self.at)
        tokens = min(Fraction(self.limit.burst), self.tokens + Fraction(at - self.at, self.limit.interval))
        if tokens < 1:
            return -math.ceil((1 - tokens) * self.limit.interval) - (at - now)
        granted = min(math.floor(tokens), wanted)
        self.tokens, self.at = tokens - granted, at
        return granted


@pytest.fixture
def limits() -> RateLimit:
    return a_process()


def a_process() -> RateLimit:
    """Return a process's limits, connected to nothing."""
    settings = read({"DATABASE_URL": "postgres://nowhere/none", "REDIS_URL": "redis://127.0.0.1:1"})
    return RateLimit(settings, Bus(settings.redis_url))


def judged(process: RateLimit, limit: Limit, who: str, now: int) -> int:
    return judge_all(process, (Charge(limit, who),), now)[0]


def judge_all(process: RateLimit, charges: Charges, now: int) -> Answer:
    future: asyncio.Future[Answer] = asyncio.Future(loop=asyncio.new_event_loop())
    future.get_loop().close()
    return process._judge(_Question(charges=charges, now_us=now, answer=future))


@given(LIMITS, STEPS)
@example(Limit(name="test", per_minute=7, burst=3), [(0, 0)] * 5)
@example(Limit(name="test", per_minute=70, burst=10), [(0, 0)] * 12)
@example(Limit(name="test", per_minute=999_999, burst=40), [(0, 0)] * 45)
def test_rate_limit_of_one_process_equals_a_token_bucket(limit: Limit, steps: list[tuple[int, int]]) -> None:
    process, buckets, now = a_process(), {n: Bucket(limit) for n in range(3)}, NOW
    for passed, which in steps:
        now += passed
        assert judged(process, limit, f"user:{which}", now) == buckets[which].take(now)


@given(st.integers(1, 1_000_000), st.integers(1, 200))
def test_rate_limit_burst_is_exact_and_its_rate_is_at_least_the_setting(per_minute: int, burst: int) -> None:
    limit, process = Limit(name="test", per_minute=per_minute, burst=burst), a_process()
    granted = [judged(process, limit, "user:x", NOW) for _ in range(burst + 3)]
    assert granted[:burst] == [1] * burst
    assert all(answer < 0 for answer in granted[burst:])
    # A minute after the bucket was emptied it has a minute's worth of tokens, or is full.
    after = [judged(process, limit, "user:x", NOW + 60_000_000) for _ in range(min(per_minute, burst))]
    assert after == [1] * min(per_minute, burst)


@given(LIMITS)
def test_rate_limit_wait_is_the_shortest_that_is_enough(limit: Limit) -> None:
    process = a_process()
    for _ in range(limit.burst):
        judged(process, limit, "user:x", NOW)
    wait = -judged(process, limit, "user:x", NOW)
    assert 0 < wait <= limit.interval
    assert judged(process, limit, "user:x", NOW + wait - 1) == -1
    assert judged(process, limit, "user:x", NOW + wait) == 1


@given(LIMITS, st.lists(st.integers(0, 5), min_size=1, max_size=50))
def test_refused_requests_do_not_prolong_the_wait(limit: Limit, gaps: list[int]) -> None:
    process, now = a_process(), NOW
    for _ in range(limit.burst):
        judged(process, limit, "user:x", NOW)
    for gap in gaps:
        now += gap
        assert judged(process, limit, "user:x", now) == -(NOW + int(limit.interval) - now)


@given(LIMITS, st.lists(st.integers(-SET_BACK // 2, SET_BACK // 2), min_size=1, max_size=60))
def test_rate_limit_with_differing_clocks_grants_at_most_that_of_the_latest(limit: Limit, offsets: list[int]) -> None:
    process = a_process()
    granted = sum(judged(process, limit, "user:x", NOW + offset) == 1 for offset in offsets)
    assert granted <= limit.burst + math.floor((max(offsets) - min(offsets)) / limit.interval)


@given(LIMITS, st.lists(st.integers(0, 1_000), min_size=1, max_size=60))
def test_rate_limit_burst_is_complete_in_any_arrival_order(limit: Limit, earlier: list[int]) -> None:
    process = a_process()
    granted = [judged(process, limit, "user:x", NOW - us) == 1 for us in earlier]
    assert sum(granted) >= min(limit.burst, len(earlier))


def test_oldest_bucket_is_dropped_first(monkeypatch: pytest.MonkeyPatch, limits: RateLimit) -> None:
    monkeypatch.setattr(rate_limit, "KEPT", 3)
    limit = Limit(name="test", per_minute=1, burst=1)
    for who in "abc":
        assert judged(limits, limit, who, NOW) == 1
    assert judged(limits, limit, "a", NOW) < 0  # and so is the newest one now
    assert judged(limits, limit, "d", NOW) == 1
    assert [judged(limits, limit, who, NOW) > 0 for who in "acd"] == [False, False, False]
    assert judged(limits, limit, "b", NOW) == 1


@pytest.mark.parametrize(
    ("per_minute", "burst", "advance"),
    [(120, 60, 1), (120, 10, 1), (1, 1, 1), (600_000, 1_000, 15), (1_000_000, 1_000_000, 1_041), (1_000_000, 1, 1)],
)
def test_only_very_high_limits_are_granted_in_advance(per_minute: int, burst: int, advance: int) -> None:
    assert Limit(name="test", per_minute=per_minute, burst=burst).advance == advance


def test_request_refused_by_one_bucket_is_charged_to_none(limits: RateLimit) -> None:
    user, address = Limit(name="user", per_minute=1, burst=5), Limit(name="address", per_minute=2, burst=2)
    charges = (Charge(user, "u"), Charge(address, "a"))
    assert [judge_all(limits, charges, NOW)[0] for _ in range(2)] == [1, 1]
    assert judge_all(limits, charges, NOW) == (-30_000_000, 2)
    assert [judged(limits, user, "u", NOW) for _ in range(3)] == [1, 1, 1]  # the refused request took nothing
    assert judge_all(limits, charges, NOW) == (-60_000_000, 1)  # the longest wait counts


@pytest.mark.parametrize(
    ("host", "buckets"),
    [
        ("203.0.113.9", [("address", "203.0.113.9", 600)]),
        ("::ffff:203.0.113.9", [("address", "203.0.113.9", 600)]),
        ("2001:db8:1:2::5", [("address", "2001:db8:1:2::/64", 600), ("address_block", "2001:db8:1::/48", 6_000)]),
        ("", [("address", "", 600)]),
    ],
)
def test_ipv6_address_is_charged_per_64_and_with_ten_times_the_limit_per_48(
    host: str, buckets: list[tuple[str, str, int]]
) -> None:
    charges = charges_of_address(Limit(name="address", per_minute=1_200, burst=600), host)
    assert [(charge.limit.name, charge.who, charge.limit.burst) for charge in charges] == buckets


@given(
    st.integers(1, 120),
    st.lists(st.sampled_from(["203.0.113.7", "203.0.113.8", "2001:db8:1::7", "198.51.100.1", "peer"])),
)
def test_network_has_a_share_of_a_budget_while_more_than_half_is_used(burst: int, hosts: list[str]) -> None:
    """The same rule as for budgets that are counted in the database."""
    limit, process, granted = Limit(name="all", per_minute=1 / 60, burst=burst), a_process(), Counter[str]()
    process._away_until = math.inf  # Redis does not answer

    async def take(host: str) -> str | None:
        try:
            await process.take_all(*charges_of_budget(limit, host), now_us=NOW)
        except RateLimited:
            return None
        return network_of(host).name

    async def play() -> None:
        shares: Counter[str] = Counter()
        for host in hosts * 30:
            network, used = network_of(host), granted.total()
            has_share = used < burst and shares[network.name] < max(1, burst // network.part)
            expected = has_share or used < burst // 2
            assert (await take(host) is not None) == expected
            shares[network.name] += has_share
            granted[network.name] += expected

    asyncio.run(play())
    assert granted.total() <= burst
    assert all(used <= burst // 2 + max(1, burst // PART_OF_24) for used in granted.values())


def test_limit_below_one_per_minute_counts_per_hour(limits: RateLimit) -> None:
    limit = Limit(name="hourly", per_minute=10 / 60, burst=10)
    assert [judged(limits, limit, "a", NOW) for _ in range(10)] == [1] * 10
    assert judged(limits, limit, "a", NOW) == -360_000_000


@given(
    st.one_of(st.integers(1, 12), st.sampled_from([25, 3_000, 1_000_000])),
    st.lists(
        st.one_of(st.integers(0, 2), st.integers(0, HOUR // 10), st.integers(HOUR // 2 - 2, HOUR + 2)), max_size=80
    ),
)
def test_hourly_limit_grants_at_most_its_number_in_any_hour(most: int, gaps: list[int]) -> None:
    limit, process, now, granted = hourly_limit("hourly", most), a_process(), NOW, []
    for gap in gaps:
        now += gap
        for _ in range(3):
            if judged(process, limit, "a", now) == 1:
                granted.append(now)
    assert all(late - early >= HOUR for early, late in zip(granted, granted[most:], strict=False))


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 10, 60, 1_001, 3_000])
def test_hourly_limit_grants_its_full_number_within_an_hour(most: int) -> None:
    limit, process, now, granted = hourly_limit("hourly", most), a_process(), NOW, 0
    while now < NOW + HOUR:  # a client that retries as soon as it may
        answer = judged(process, limit, "a", now)
        granted, now = (granted + 1, now) if answer == 1 else (granted, now - answer)
    assert granted == most


@given(st.integers(1, 10_000_000))
@example(59_999)
@example(9_999_999)
def test_hourly_limit_never_exceeds_its_number_by_arithmetic(most: int) -> None:
    limit = hourly_limit("hourly", most)
    assert limit.burst + math.ceil(Fraction(HOUR, limit.interval)) - 1 == most
    assert limit.burst > 0.49 * most


@given(LIMITS, st.lists(st.integers(0, 120_000_000), max_size=80))
def test_bucket_grants_its_burst_plus_one_per_interval(limit: Limit, gaps: list[int]) -> None:
    process, now, granted = a_process(), NOW, []
    for gap in gaps:
        now += gap
        if judged(process, limit, "a", now) == 1:
            granted.append(now)
    for first, at in enumerate(granted):
        for last in range(first, len(granted)):
            assert last - first + 1 <= limit.burst + (granted[last] - at) // limit.interval


def test_rate_limit_refusal_is_429_rate_limited() -> None:
    assert (RateLimited.kind, RateLimited.code) == (Kind.TOO_SOON, "RATE_LIMITED")
