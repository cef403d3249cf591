"""What a user may send over sockets: token buckets, and the order of refused messages."""

import random

from core.settings.environment import read
from realtime import budgets
from realtime.budgets import HOLD_S, Budgets, RefusedMessages, TokenBucket, wait_of

SETTINGS = read({})


def test_token_bucket_holds_burst_and_refills_at_rate() -> None:
    bucket = TokenBucket(5, 30, 0.0)
    assert [bucket.take(1, 0.0) for _ in range(31)] == [True] * 30 + [False]
    assert bucket.seconds_until(1) == 1
    assert bucket.seconds_until(30) == 6
    assert not bucket.take(1, 0.19)
    assert bucket.take(1, 0.41)
    assert not bucket.is_full(6.1)
    assert bucket.is_full(6.3)


def test_token_bucket_refusal_takes_no_token() -> None:
    bucket = TokenBucket(1, 10, 0.0)
    assert not bucket.take(11, 0.0)
    assert bucket.take(10, 0.0)


def test_budget_of_a_user_is_kept_across_reconnects() -> None:
    kept = Budgets(SETTINGS)
    first = kept.open("dewi", 0.0)
    assert kept.open("dewi", 0.0) is first
    assert first.frames.take(200, 0.0)
    kept.close(first, 1.0)
    kept.close(first, 1.0)
    again = kept.open("dewi", 2.0)
    assert again is first
    assert not again.frames.take(61, 2.0)
    assert kept.open("ayu", 2.0) is not first


def test_budgets_of_disconnected_users_are_dropped_when_full_again() -> None:
    kept = Budgets(SETTINGS)
    for number in range(1000):
        kept.close(kept.open(f"user {number}", 0.0), number / 1000)
    stays = kept.open("stays", 1.0)
    assert len(kept) == 1001
    kept.close(kept.open("later", 8.0), 8.0)
    assert len(kept) == 2
    kept.close(stays, 9.0)


def test_budgets_of_disconnected_users_are_limited_in_number(monkeypatch) -> None:
    monkeypatch.setattr(budgets, "KEPT", 10)
    kept = Budgets(SETTINGS)
    for number in range(100):
        kept.close(kept.open(f"user {number}", 0.0), 0.0)
    assert len(kept) == 10


def test_foreign_sessions_are_remembered_for_seconds_and_limited_in_number() -> None:
    budget = Budgets(SETTINGS).open("dewi", 0.0)
    for number in range(100):
        budget.remember_strange(str(number), 0.0)
    assert [budget.is_strange(str(number), 1.0) for number in (0, 67, 68, 99)] == [False, False, True, True]
    assert not budget.is_strange("99", budgets.STRANGE_S + 0.1)
    budget.remember_strange("99", 0.0)
    budget.forget_strange()
    assert not budget.is_strange("99", 1.0)


def test_message_buckets_of_a_user_are_per_session_and_limited_in_number() -> None:
    budget = Budgets(SETTINGS).open("dewi", 0.0)
    assert budget.messages("a", 0.0) is budget.messages("a", 0.0)
    assert budget.messages("a", 0.0) is not budget.messages("b", 0.0)
    for number in range(1000):
        budget.messages(str(number), float(number))
    assert len(budget._messages) <= budgets.KEPT_SESSIONS


class Device:
    """A socket that sends messages of one session; `stored` holds the accepted ones."""

    def __init__(self) -> None:
        self.budget = Budgets(SETTINGS).open("dewi", 0.0)
        self.refused: dict[str, RefusedMessages] = {}
        self.stored: list[str] = []

    def send(self, client_id: str, now: float) -> int:
        wait = wait_of(self.budget, self.refused, "session", client_id, now)
        if not wait:
            self.stored.append(client_id)
        return wait


def test_message_after_refused_one_waits_for_it() -> None:
    device = Device()
    assert [device.send(f"m{n}", 0.0) for n in range(32)] == [0] * 30 + [1, 1]
    assert device.send("m32", 5.0) == 1  # the rate would allow it, but m30 and m31 have not arrived yet
    assert device.send("m31", 5.0) == 1
    assert [device.send(f"M{n}", 5.0) for n in (30, 31, 32)] == [0, 0, 0]
    assert device.send("m33", 5.0) == 0
    assert device.refused == {}


def test_message_that_is_never_sent_again_delays_others_for_seconds() -> None:
    device = Device()
    for n in range(31):
        device.send(f"m{n}", 0.0)
    assert device.send("m31", 1.0 + HOLD_S - 0.1) == 1
    assert device.send("m31", 1.0 + HOLD_S + 0.1) == 0


def test_refused_messages_are_stored_in_order_for_any_client_behaviour() -> None:
    """A client sends new and refused messages at random; the stored ones keep the order of the first refusals."""
    for seed in range(200):
        dice = random.Random(seed)
        device, refused, made, now = Device(), [], 0, 0.0
        while len(device.stored) < 60:
            now += dice.choice((0.0, 0.05, 0.3))
            if refused and dice.random() < 0.7:
                client_id = dice.choice((refused[0], refused[0], dice.choice(refused)))
                if device.send(client_id, now) == 0:
                    assert client_id == refused[0], seed
                    refused.pop(0)
            else:
                made += 1
                if device.send(f"m{made}", now):
                    refused.append(f"m{made}")
                else:
                    assert refused == [], seed
