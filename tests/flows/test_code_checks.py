"""Checks of phone codes against a model, and at the same time as each other (docs/product.md#phone-codes)."""

import asyncio
import random
from collections.abc import Iterator

import attrs
import pytest

from core.accounts.logins import check_code, codes, otp
from core.accounts.logins import erasing as login_erasing
from core.accounts.logins.failed_sign_ins import NotedAttempt
from core.base import ids
from core.base.actor import UserType
from core.base.errors import DomainError
from core.storage.transaction import Tx
from tests.clock import HandClock
from tests.flows.conftest import Harness

MOST, KINDS = 5, (UserType.CUSTOMER, UserType.MITRA)
ATTEMPTS = "SELECT attempts FROM otp_requests WHERE id = ANY($1::uuid[])"


@attrs.define(kw_only=True)
class Sent:
    """What the model knows of a request."""

    id: str
    phone: str
    kind: UserType
    code: str
    at: float
    failed: bool
    wrong: int = 0
    is_used: bool = False

    def is_alive(self, now: float) -> bool:
        """Return whether the code has not expired and was not used."""
        return not self.is_used and now < self.at + otp.LIFETIME.total_seconds()


@pytest.fixture(autouse=True)
def no_codes_left(harness: Harness) -> Iterator[None]:
    """Delete the requests of the test: others look at all of them."""
    yield
    harness.run(harness.runtime.db.fetch("DELETE FROM otp_requests"))


@pytest.fixture
def clock(harness: Harness) -> Iterator[HandClock]:
    """Let the test advance the clock."""
    before, harness.runtime.clock = harness.runtime.clock, HandClock.at(2026, 11, 28)
    yield harness.runtime.clock
    harness.runtime.clock = before


async def send(harness: Harness, phone: str, kind: UserType, code: str, *, failed: bool = False) -> str:
    """Store a request whose code was sent; return its id."""
    runtime, made = harness.runtime, ids.new_id()
    async with runtime.transaction() as tx:
        await codes.create(
            tx, otp_request_id=made, phone=phone, ip_address="192.0.2.1", user_type=kind, channel="sms", stranger=None,
            code_hash=otp.hash_code(key=runtime.keys.codes[0], otp_request_id=made, code=code), send_later=False,
            expires_at=tx.now + otp.LIFETIME,
        )  # fmt: skip
        await codes.delivered(tx, made, reference=None if failed else "sent", number_refused=False)
    return made


async def type_code(harness: Harness, named: str, kind: UserType, code: str) -> str:
    """Check a code; return its phone if it was right, else the refusal and the tries that are left."""

    async def act(_: Tx, phone: str) -> str:
        return phone

    attempt = NotedAttempt()
    try:
        return await check_code.verify(harness.runtime, kind, named, code, act, attempt)
    except DomainError as no:
        return f"{no.code} {(no.details or {}).get('attempts_remaining', '')}".strip()


def expected(sent: list[Sent], named: Sent, kind: UserType, code: str, now: float) -> str:
    """Return what a check must answer, and record in the model what it changes."""
    if named.kind is not kind:
        return "OTP_INVALID 0"
    if not named.is_alive(now):
        return "OTP_EXPIRED"
    if named.wrong >= MOST:
        return "OTP_ATTEMPTS_EXCEEDED"
    living = [
        one
        for one in sent
        if (one.phone, one.kind) == (named.phone, kind) and one.is_alive(now) and (one is named or not one.failed)
    ]
    guessable = [one for one in living if one.wrong < MOST]
    if any(one.code == code for one in guessable if sent.index(one) <= sent.index(named)):
        for one in living:
            one.is_used = True
        return named.phone
    for one in guessable:
        one.wrong += 1
    return f"OTP_INVALID {MOST - named.wrong}"


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_requests_and_guesses_has_the_outcome_of_the_model(
    harness: Harness, clock: HandClock, seed: int
) -> None:
    rng, sent, now = random.Random(seed), list[Sent](), 0.0

    async def life() -> None:
        nonlocal now
        for _ in range(120):
            pause = rng.choice([0, 0, 1, 61, 100])
            clock.advance(pause)
            now += pause
            if not sent or rng.random() < 0.3:
                phone, kind = f"+62812{seed}{rng.randrange(2)}000000", rng.choice(KINDS)
                code, failed = f"{rng.randrange(10**6):06d}", rng.random() < 0.15
                made = await send(harness, phone, kind, code, failed=failed)
                sent.append(Sent(id=made, phone=phone, kind=kind, code=code, at=now, failed=failed))
                continue
            named = rng.choice(sent[-6:])
            kind = named.kind if rng.random() < 0.9 else rng.choice(KINDS)
            code = rng.choice(sent[-6:]).code if rng.random() < 0.4 else f"{rng.randrange(10**6):06d}"
            wanted = expected(sent, named, kind, code, now)
            assert await type_code(harness, named.id, kind, code) == wanted
        rows = await harness.runtime.db.fetch(ATTEMPTS, [one.id for one in sent])
        assert sorted(row["attempts"] for row in rows) == sorted(one.wrong for one in sent)

    harness.run(life())


def test_concurrent_guesses_at_three_living_codes_share_five_tries(harness: Harness) -> None:
    async def guesses() -> None:
        phone = "+62813000000001"
        sent = [await send(harness, phone, UserType.CUSTOMER, f"11111{n}") for n in range(3)]
        other = await send(harness, phone, UserType.MITRA, "111110")
        tried = [type_code(harness, one, UserType.CUSTOMER, f"{n:06d}") for n in range(12) for one in sent]
        answers = sorted(await asyncio.gather(*tried))
        assert answers == ["OTP_ATTEMPTS_EXCEEDED"] * 31 + [f"OTP_INVALID {left}" for left in range(5)]
        for one in sent:
            assert await type_code(harness, one, UserType.CUSTOMER, "111110") == "OTP_ATTEMPTS_EXCEEDED"
        assert await type_code(harness, other, UserType.MITRA, "111110") == phone

    harness.run(guesses())


def test_right_codes_of_three_requests_at_once_sign_in_once_with_an_erasure_in_between(harness: Harness) -> None:
    async def rush(n: int) -> None:
        phone = f"+6281300001{n:04d}"
        sent = [await send(harness, phone, UserType.CUSTOMER, f"22222{n}") for n in range(3)]

        async def erase_number() -> str:
            async with harness.runtime.transaction() as tx:
                await login_erasing.lock_codes(tx, phone)
                await login_erasing.forget_codes(harness.runtime, tx, phone)
            return "erased"

        typed = [type_code(harness, one, UserType.CUSTOMER, "222220") for one in [*sent, *sent[::-1]]]
        answers = await asyncio.gather(*typed[:3], erase_number(), *typed[3:])
        assert sum(answer == phone for answer in answers) <= 1
        assert {*answers} - {phone, "erased"} == {"OTP_EXPIRED"}
        assert await harness.runtime.db.fetchval("SELECT count(*) FROM otp_requests WHERE phone = $1", phone) == 0

    async def rushes() -> None:
        for n in range(10):
            await rush(n)

    harness.run(rushes())
