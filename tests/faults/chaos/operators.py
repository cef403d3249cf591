"""A simulated operator who blocks customers, gives earned money back and resolves reports while faults happen."""

import asyncio
import itertools
import random
import time
from typing import Any

from tests.faults import people as app
from tests.faults.chaos.lives import ChaosWorld, Customer, Given, Interval, SimulatedUser
from tests.stack import new_id
from tools.driving.device import Device

PAYMENTS = "/internal/payment-requests"


class Operator(SimulatedUser):
    """The operator. They lift each block after some seconds, so every customer goes on."""

    def __init__(self, crowd: ChaosWorld, dice: random.Random, customers: list[Customer]) -> None:
        super().__init__(crowd, dice, "operator")
        self._customers = customers
        self._numbers = itertools.count(1)

    async def live(self, stop: asyncio.Event) -> None:
        """Act until `stop` is set."""
        client = await self.crowd.operator()
        while not stop.is_set():
            await self.dice.choices((self.block, self.give_back, self.resolve), (1, 3, 2))[0](client)
            await self.pause(0.1, 1.0)

    def _at(self, path: str) -> str:
        """Return a path at one of the api processes."""
        return self.crowd.service.at(self.dice.randrange(100)).internal + path

    async def block(self, client: Device) -> None:
        """Block a customer for some seconds."""
        joined = [one.id for one in self._customers if one.id]
        if not joined:
            return
        customer_id = self.dice.choice(joined)
        path = f"/internal/customers/{customer_id}"
        self.notes.ever_blocked.add(customer_id)
        await app.retry(lambda: client.post(self._at(f"{path}/block"), {"reason": "chaos"}))
        since = time.time()
        await self.pause(0.5, 3.0)
        self.notes.account_blocks.append(Interval(whom=(customer_id,), since=since, until=time.time()))
        await app.retry(lambda: client.post(self._at(f"{path}/unblock")))
        self.notes.counts["blocks by operators"] += 1

    async def give_back(self, client: Device) -> None:
        """Give earned money back: in part or whole, through the gateway or by hand, once or repeatedly."""
        listed = await app.retry(lambda: client.get(self._at(PAYMENTS), status="consumed", limit=100))
        left = {
            one["payment_request_id"]: one["refundable_amount"] for one in listed["items"] if one["refundable_amount"]
        }
        if not left:
            return
        payment_id = self.dice.choice(sorted(left))
        whole = self.dice.random() < 0.4
        amount = left[payment_id] if whole else self.dice.randint(1, left[payment_id])
        number = next(self._numbers)
        body: dict[str, Any] = {"amount": amount, "reason": f"chaos/{number}"}
        by_hand, keyed = self.dice.random() < 0.4, self.dice.random() < 0.7
        if by_hand:
            body |= {"by_hand": True, "reference": f"TRF-{number}"}
        headers = {"Idempotency-Key": new_id()} if keyed else {}
        self.notes.reasons.add(body["reason"])
        seen: set[str] = set()
        for _ in range(1 if self.dice.random() < 0.5 else 2):
            path = f"{PAYMENTS}/{payment_id}/refund"
            made = await app.retry(
                lambda path=path: client.call("POST", self._at(path), body, headers=headers),
                done=() if by_hand or keyed else ("REFUND_EXCEEDS_PAID",),  # a lost answer, and the refund is done
            )
            if made is not None:
                seen.add(made["id"])
                given = Given(id=made["id"], reason=body["reason"], amount=amount, is_once=by_hand or keyed)
                self.notes.given.append(given)
        if (by_hand or keyed) and len(seen) > 1:
            self.notes.violation(f"a repeat made another refund: {seen} of {payment_id}")
        self.notes.counts["whole refunds" if whole else "partial refunds"] += 1

    async def resolve(self, client: Device) -> None:
        """Resolve an open report."""
        listed = await app.retry(lambda: client.get(self._at("/internal/reports"), status="open", limit=20))
        if not listed["items"]:
            return
        report_id = self.dice.choice([one["id"] for one in listed["items"]])
        resolution = self.dice.choice(("dismissed", "warned", "blocked", "made_good"))
        path, body = f"/internal/reports/{report_id}", {"resolution": resolution}
        await app.retry(lambda: client.call("PATCH", self._at(path), body), done=("REPORT_RESOLVED",))
        self.notes.resolved[report_id] = resolution
        self.notes.counts["reports resolved"] += 1
