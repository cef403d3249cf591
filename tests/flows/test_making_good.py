"""Earned money goes back, in whole or in part: at most what was paid, once, and while the chat runs
(docs/product.md#making-good)."""

import asyncio
from typing import Any

import asyncpg
import pytest

from core.accounts.customers import erasing
from core.base import ids
from core.base.actor import Actor
from core.base.errors import DomainError
from core.base.pages import read_page
from core.desk import earned_refunds, support
from core.desk.ledger.audit import audit
from core.desk.timeline.timeline import timeline
from core.idempotency.rules import KeyedRequest, keyed_request
from core.pairing import presence
from core.payments.refunds import make_good, refund
from core.privacy import erase_columns
from core.sessions import end as end_session
from core.sessions import own_lists
from tests.flows.conftest import READER, WAITING, Harness
from tests.http.gateway.simulated_gateway import SimulatedGateway, error_reply
from tests.verdicts import check_books

PRICE = 12_000


class Chat:
    """A running chat that a customer paid for, and the operator who gives money back."""

    def __init__(self, harness: Harness, simulated: SimulatedGateway) -> None:
        self.harness, self.runtime, self.simulated = harness, harness.runtime, simulated.refunds
        self.customer: Actor
        self.operator: Actor
        self.payment_id: str
        self.session_id: str

    async def begin(self) -> None:
        """Start the chat."""
        mitra = await self.harness.mitra()
        await presence.go_online(self.runtime, mitra)
        self.customer, self.operator = await self.harness.customer(), await self.harness.operator()
        self.session_id = await self.harness.start_session(self.customer, mitra)
        sql = "SELECT payment_request_id::text FROM chat_sessions WHERE id = $1"
        self.payment_id = await self.runtime.db.fetchval(sql, self.session_id)

    async def ask(
        self, amount: int = PRICE, *, reason: str = "maaf", key: KeyedRequest | None = None, by: Actor | None = None
    ) -> str:
        """Ask the gateway to give money back; return the refund's id."""
        return await make_good.request(
            self.runtime,
            by or self.operator,
            payment_request_id=self.payment_id,
            amount=amount,
            reason=reason,
            key=key,
        )

    async def by_hand(self, amount: int = PRICE, reference: str = "TRF-1", *, key: KeyedRequest | None = None) -> str:
        """Record money that was given back by hand; return the refund's id."""
        return await make_good.record(
            self.runtime,
            self.operator,
            payment_request_id=self.payment_id,
            amount=amount,
            reason="maaf",
            reference=reference,
            key=key,
        )

    def key(self, name: str, **body: Any) -> KeyedRequest:
        """Return a key of the operator for a call with a body."""
        return keyed_request(user_id=self.operator.user_id, key=name, operation="refund", body=body)

    async def refund_ids(self) -> list[str]:
        """Return the ids of all refunds of the payment, oldest first."""
        found = await earned_refunds.of_payment(self.runtime, READER, self.payment_id)
        return [one.id for one in reversed(found.items)]

    async def poll(self) -> None:
        """Ask the gateway about what is due, after all pauses are over."""
        await self.runtime.db.fetch("UPDATE refunds SET ask_at = requested_at WHERE ask_at IS NOT NULL")
        await refund.ask_due(self.runtime)

    async def done(self, refund_id: str, status: str = "SUCCEEDED") -> None:
        """Let the gateway make and decide a refund."""
        await self.poll()
        await self.harness.call(self.simulated.settle(refund_id, status, failure_code="REFUND_FAILED"))

    async def ledger(self) -> list[tuple[str, int]]:
        """Return the customer's transactions as they see them, and check that the audit finds nothing."""
        check_books(await audit(self.runtime, overdue=False))
        page = await own_lists.transactions(self.runtime, self.customer, read_page(None, None))
        return sorted((one.type, one.amount) for one in page.items)

    async def left(self) -> int:
        """Return how much can still go back."""
        return (await support.payment(self.runtime, self.payment_id)).refundable_amount


async def refused(work: Any) -> tuple[str, dict[str, Any] | None]:
    """Return the code and details with which a call is refused."""
    with pytest.raises(DomainError) as caught:
        await work
    return caught.value.code, caught.value.details


@pytest.fixture
def chat(refunding: Harness, simulated: SimulatedGateway) -> Chat:
    """Return a running chat."""
    made = Chat(refunding, simulated)
    refunding.run(made.begin())
    return made


def test_parts_go_back_through_the_gateway_until_nothing_is_left(chat: Chat) -> None:
    async def play() -> None:
        first = await chat.ask(5_000)
        assert await chat.left() == 7_000
        assert await refused(chat.ask(7_001)) == ("REFUND_EXCEEDS_PAID", {"refundable": 7_000})
        assert await chat.ledger() == [("session", PRICE)]  # nothing has gone back yet
        await chat.done(first)
        assert await chat.ledger() == [("refund", -5_000), ("session", PRICE)]
        await chat.done(await chat.ask(7_000))
        assert await chat.ledger() == [("refund", -7_000), ("refund", -5_000), ("session", PRICE)]
        assert await refused(chat.ask(1)) == ("REFUND_EXCEEDS_PAID", {"refundable": 0})
        assert await refused(chat.by_hand(0)) == ("REFUND_EXCEEDS_PAID", {"refundable": 0})
        assert [one["amount"] for one in chat.simulated.asked] == [5_000, 7_000]
        found = await chat.runtime.db.fetchval("SELECT status FROM chat_sessions WHERE id = $1", chat.session_id)
        assert found == "active"
        told = await chat.runtime.db.fetch(
            "SELECT payload FROM deliveries WHERE event = 'payment_updated' AND recipient_id = $1 ORDER BY id",
            chat.customer.user_id,
        )
        assert len(told) == 4
        assert '"refunded":12000' in told[-1]["payload"].replace(" ", "")
        story = [one.text for one in (await timeline(chat.runtime, READER, chat.payment_id)).entries]
        assert [text for text in story if " back" in text] == [
            "Root asked the gateway to give Rp 5.000 back: 1 word, hidden",
            "The gateway paid Rp 5.000 back.",
            "Root asked the gateway to give Rp 7.000 back: 1 word, hidden",
            "The gateway paid Rp 7.000 back.",
        ]

    chat.harness.run(play())


@pytest.mark.parametrize("amount", [0, -1, -(2**40), PRICE + 1, 2**31, 10**40])
def test_amount_out_of_range_is_refused_with_what_is_left(chat: Chat, amount: int) -> None:
    async def play() -> None:
        assert await refused(chat.ask(amount)) == ("REFUND_EXCEEDS_PAID", {"refundable": PRICE})
        assert await refused(chat.by_hand(amount)) == ("REFUND_EXCEEDS_PAID", {"refundable": PRICE})
        assert await chat.refund_ids() == []

    chat.harness.run(play())


def test_repeat_without_a_key_gets_the_open_refund_of_the_same_operator_amount_and_reason(chat: Chat) -> None:
    async def play() -> None:
        first = await chat.ask(2_000)
        assert await chat.ask(2_000) == first
        assert set(await asyncio.gather(*(chat.ask(2_000) for _ in range(8)))) == {first}
        others = [
            await chat.ask(2_001),
            await chat.ask(2_000, reason="another case"),
            await chat.ask(2_000, by=await chat.harness.operator()),
        ]
        assert await chat.refund_ids() == [first, *others]
        await chat.done(first)
        assert await chat.ask(2_000) not in (first, *others)  # the first is done, so this is another one
        assert len(chat.simulated.of(first)) == 1
        await chat.ledger()

    chat.harness.run(play())


def test_repeat_of_a_whole_refund_gets_it_although_nothing_is_left(chat: Chat) -> None:
    async def play() -> None:
        first = await chat.ask()
        assert await chat.ask() == first
        assert await chat.refund_ids() == [first]

    chat.harness.run(play())


def test_key_makes_one_refund_and_another_key_a_second(chat: Chat) -> None:
    async def play() -> None:
        one, two = chat.key("k1", amount=1), chat.key("k2", amount=1)
        first = await chat.ask(1_000, key=one)
        assert set(await asyncio.gather(*(chat.ask(1_000, key=one) for _ in range(6)))) == {first}
        second = await chat.ask(1_000, key=two)
        assert second != first
        assert await refused(chat.ask(1_000, key=chat.key("k1", amount=2))) == ("IDEMPOTENCY_MISMATCH", None)
        await chat.done(first)
        assert await chat.ask(1_000, key=one) == first  # also after the refund is done
        by_hand = await chat.by_hand(500, key=chat.key("k3", amount=3))
        assert await chat.by_hand(500, "TRF-1", key=chat.key("k3", amount=3)) == by_hand
        assert await chat.refund_ids() == [first, second, by_hand]
        await chat.ledger()

    chat.harness.run(play())


def test_refused_refund_leaves_its_key_free(chat: Chat) -> None:
    async def play() -> None:
        key = chat.key("k1")
        assert (await refused(chat.ask(PRICE + 1, key=key)))[0] == "REFUND_EXCEEDS_PAID"
        assert await chat.ask(PRICE, key=key) in await chat.refund_ids()

    chat.harness.run(play())


def test_refund_by_hand_is_done_at_once_and_a_repeat_gets_the_first(chat: Chat) -> None:
    async def play() -> None:
        first = await chat.by_hand(2_000)
        assert await chat.by_hand(3_000) == first
        assert await chat.ledger() == [("refund", -2_000), ("session", PRICE)]
        assert await chat.by_hand(10_000, "TRF-2") != first
        assert await refused(chat.by_hand(1, "TRF-3")) == ("REFUND_EXCEEDS_PAID", {"refundable": 0})
        view, _ = (await earned_refunds.of_payment(chat.runtime, READER, chat.payment_id)).items
        assert (view.amount, view.by_hand, view.reference, view.status, view.reason) == (
            10_000, True, "TRF-2", "succeeded", "1 word, hidden",
        )  # fmt: skip

    chat.harness.run(play())


@pytest.mark.parametrize(
    "reference",
    [
        "",
        " ",
        "x" * 65,
        "transfer to Dewi",
        "dewi@example.test",
        "TRF-1\n",
        "TRF--1",
        "-TRF",
        "BCA 1234567890",
        "\u0661",
        "TRF\u200b1",
        "081234567890",
        "0812-3456-7890",
        "6281234567890",
        "62.812.3456.7890",
        "00628123456789",
    ],
)
def test_reference_that_is_no_number_of_a_transfer_is_refused(chat: Chat, reference: str) -> None:
    async def play() -> None:
        code, details = await refused(chat.by_hand(1, reference))
        assert details is not None
        assert (code, [one["field"] for one in details["fields"]]) == ("VALIDATION_ERROR", ["reference"])
        assert await chat.refund_ids() == []

    chat.harness.run(play())


@pytest.mark.parametrize(
    "reference", ["1", "TRF-1", "2026/11/28:BCA#77", "x" * 64, "1234567890", "20261128BRINIDJA010O0123456789"]
)
def test_reference_may_be_the_number_of_any_bank(chat: Chat, reference: str) -> None:
    async def play() -> None:
        await chat.by_hand(1, reference)
        (found,) = (await earned_refunds.of_payment(chat.runtime, READER, chat.payment_id)).items
        assert found.reference == reference

    chat.harness.run(play())


@pytest.mark.parametrize("when", ["before", "after"])
def test_erasure_leaves_a_refund_by_hand_without_its_reference(chat: Chat, when: str) -> None:
    async def play() -> None:
        runtime, customer_id = chat.runtime, chat.customer.user_id
        if when == "before":
            await chat.by_hand(500, "ACCOUNT-1234567890")
        async with runtime.transaction() as tx:
            await erasing.mark_erased(tx, [customer_id])
            await erase_columns.blank_identity(tx, [customer_id])
        if when == "before":
            async with runtime.transaction() as tx:
                for sql in erase_columns.BLANK_LATER:
                    await tx.execute(sql, [customer_id])
        else:
            await chat.by_hand(500, "ACCOUNT-1234567890")
        (found,) = (await earned_refunds.of_payment(runtime, READER, chat.payment_id)).items
        assert (found.by_hand, found.reference, found.reason, found.amount) == (True, found.id, None, 500)
        told = await runtime.db.fetch(
            "SELECT after::text FROM operator_audit_log WHERE object_id = $1", chat.payment_id
        )
        assert [row["after"] for row in told if "1234567890" in row["after"]] == []
        story = [one.text for one in (await timeline(runtime, READER, chat.payment_id)).entries]
        assert any("500" in text and "back" in text for text in story)
        check_books(await audit(runtime, overdue=False))

    chat.harness.run(play())


def test_failed_refund_frees_its_amount_and_a_late_success_must_fit(chat: Chat) -> None:
    async def play() -> None:
        first = await chat.ask()
        await chat.done(first, "FAILED")
        assert await chat.left() == PRICE
        second = await chat.ask(1)
        await chat.done(second)
        late = chat.simulated.settle(first)
        assert await chat.harness.call(late) == "conflict"  # 12,000 no longer fit
        assert await chat.ledger() == [("refund", -1), ("session", PRICE)]

    chat.harness.run(play())


def test_declined_refund_that_may_have_paid_bars_the_gateway_but_not_the_hand(chat: Chat) -> None:
    async def play() -> None:
        chat.simulated.before_refund = lambda _: error_reply(400, "MAXIMUM_REFUND_AMOUNT_REACHED")
        await chat.ask()
        await chat.poll()
        assert await refused(chat.ask(1)) == ("NOT_REFUNDABLE", {"reason": "refund_failed"})
        await chat.by_hand()
        assert await chat.ledger() == [("refund", -PRICE), ("session", PRICE)]

    chat.harness.run(play())


def test_request_that_was_not_earned_is_refused(chat: Chat) -> None:
    async def play() -> None:
        waiting = await chat.harness.paid(await chat.harness.customer())
        chat.payment_id = waiting
        assert (await refused(chat.ask()))[0] == "PAYMENT_NOT_CONSUMED"
        assert (await refused(chat.by_hand()))[0] == "PAYMENT_NOT_CONSUMED"
        chat.payment_id = ids.new_id()
        assert (await refused(chat.ask()))[0] == "NOT_FOUND"

    chat.harness.run(play())


def test_chat_ends_as_always_after_its_money_went_back(chat: Chat) -> None:
    async def play() -> None:
        await chat.by_hand()
        chat.runtime.config.values = {**chat.runtime.config.values, "early_end_customer_enabled": True}
        await end_session.end(chat.runtime, chat.customer, session_id=chat.session_id)
        assert await chat.ledger() == [("refund", -PRICE), ("session", PRICE)]

    chat.harness.run(play())


def test_parallel_refunds_of_both_kinds_give_at_most_what_was_paid(chat: Chat) -> None:
    async def play() -> None:
        calls = [chat.by_hand(5_000, f"TRF-{n}") if n % 2 else chat.ask(5_000, reason=f"maaf {n}") for n in range(24)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        refusals = [one for one in found if isinstance(one, DomainError)]
        assert {one.code for one in refusals} == {"REFUND_EXCEEDS_PAID"}
        assert len(found) - len(refusals) == 2
        assert await chat.left() == 2_000
        await chat.ledger()

    chat.harness.run(play())


SUCCEEDED = """INSERT INTO refunds (id, payment_request_id, amount, status, requested_by, requested_at, settled_at, by_hand, hand_reference)
  VALUES ($1, $2, $3, 'succeeded', $4, now(), now(), true, gen_random_uuid()::text)"""
BOOKED = """INSERT INTO customer_transactions (id, customer_id, session_id, payment_request_id, refund_id, type, amount)
  SELECT gen_random_uuid(), customer_id, id, payment_request_id, $2, 'refund', $3 FROM chat_sessions WHERE id = $1"""


@pytest.mark.parametrize("wrong", ["no row in the ledger", "another amount", "too much", "no refund", "not earned"])
def test_database_refuses_money_that_is_not_conserved(chat: Chat, wrong: str) -> None:
    refund_id = ids.new_id()
    amount = PRICE + 1 if wrong == "too much" else 100
    payment_id = chat.payment_id
    if wrong == "not earned":
        payment_id = chat.harness.run(chat.harness.paid(chat.harness.run(chat.harness.customer())))

    async def write() -> None:
        async with chat.runtime.db.pool.acquire() as connection, connection.transaction():
            if wrong != "no refund":
                await connection.execute(SUCCEEDED, refund_id, payment_id, amount, chat.operator.user_id)
            if wrong not in ("no row in the ledger", "not earned"):
                booked = -1 if wrong == "another amount" else -amount
                await connection.execute(BOOKED, chat.session_id, refund_id, booked)

    if wrong == "no refund":  # a row of the ledger alone breaks a rule of the audit
        chat.harness.run(write())
        found = chat.harness.run(audit(chat.runtime, overdue=False))
        assert {one.rule for one in found.violations} == {"earned money goes back at most once"}
    else:
        with pytest.raises(asyncpg.CheckViolationError):
            chat.harness.run(write())


def test_second_transaction_waits_for_the_first_and_is_refused(chat: Chat) -> None:
    """The trigger's lock, without any use case: neither transaction could see the other's refund."""

    async def write(connection: Any) -> None:
        refund_id = ids.new_id()
        await connection.execute(SUCCEEDED, refund_id, chat.payment_id, PRICE, chat.operator.user_id)
        await connection.execute(BOOKED, chat.session_id, refund_id, -PRICE)
        await connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    async def play() -> None:
        pool = chat.runtime.db.pool
        async with pool.acquire() as one, pool.acquire() as two:
            first, second = one.transaction(), two.transaction()
            await first.start()
            await second.start()
            await write(one)
            waiting = asyncio.create_task(write(two))
            await chat.harness.until(WAITING, 1)
            await first.commit()
            with pytest.raises(asyncpg.CheckViolationError):
                await waiting
            await second.rollback()

    chat.harness.run(play())
