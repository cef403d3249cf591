"""The audit of a restored database: work that was not due when it was last written is not overdue."""

from core.desk.ledger.audit import audit
from core.pairing import request as payment_request
from tests.flows.chats import a_chat
from tests.flows.conftest import ADDRESS, WISH, Harness
from tests.verdicts import check_books

AGE_S = 1_200.0
OVERDUE = {"an unpaid request expires", "an unacknowledged event becomes a push"}


def test_work_that_became_due_after_the_newest_data_is_not_overdue(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        await a_chat(clean_harness)
        await payment_request.request_payment(runtime, await clean_harness.customer(), WISH, address=ADDRESS)
        ago = "now() - interval '10 minutes'"
        await runtime.db.fetch(f"UPDATE payment_requests SET expires_at = {ago} WHERE status = 'pending'")
        await runtime.db.fetch(f"UPDATE deliveries SET created_at = {ago}")
        assert {violation.rule for violation in (await audit(runtime)).violations} == OVERDUE
        check_books(await audit(runtime, age_s=AGE_S))

    clean_harness.run(play())
