"""The entries of a timeline about a payment that led to no chat, and about its refund."""

from typing import Any

from core.base.languages import Text
from core.desk.timeline.entries import TimelineEntry
from core.payments.failures.causes import CauseTag

ENDED_BY_OPERATOR = Text(
    en="The customer paid, and an operator ended the search before a mitra accepted.",
    id="Pelanggan membayar, lalu operator mengakhiri pencarian sebelum ada mitra yang menerima.",
)
DONE = {
    "refunded": "refunded the payment",
    "credited": "gave a credit",
    "no_action": "decided that no action is needed",
}
REFUNDED = "The gateway paid the money back."


def explanation(tag: CauseTag, *, by_operator: bool) -> Text:
    """Return the sentence about a failure. `by_operator`: an operator ended the search."""
    return ENDED_BY_OPERATOR if by_operator and tag is CauseTag.CUSTOMER_CANCELLED else tag.cause.explanation


def of_failures(rows: list[Any], *, by_operator: bool) -> list[TimelineEntry]:
    """Return the entries of failures and of what followed each one."""
    found: list[TimelineEntry] = []
    for row in rows:
        why = explanation(CauseTag(row["cause_tag"]), by_operator=by_operator)
        text = f"The payment led to no chat ({row['cause_tag']}): {why.en}"
        found.append(TimelineEntry(at=row["created_at"], kind="failed", text=text))
        if row["superseded_at"] is not None:
            text = "The customer asked all mitras instead, with the same payment."
            found.append(TimelineEntry(at=row["superseded_at"], kind="tried_again", text=text))
        if row["refund_status"] == "failed":
            text = f"The refund failed: {row['refund_failure_code']}."
            found.append(TimelineEntry(at=row["refund_settled_at"], kind="refund_failed", text=text))
        if row["operator_action"] is not None:
            note = f": {row['note']}" if row["note"] else "."
            by_gateway = row["refund_status"] == "succeeded"
            text = REFUNDED if by_gateway else f"{row['operator_name']} {DONE[row['operator_action']]}{note}"
            found.append(TimelineEntry(at=row["actioned_at"], kind="operator_acted", text=text))
    return found
