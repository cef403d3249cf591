"""The table of refunds."""

from piccolo.constraints import Check
from piccolo.table import Table

from core.payments.refunds.states import OPEN, RefundStatus
from core.storage import columns
from core.storage.personal import Erase, Personal

REASON = Personal("what an operator wrote about a refund", "always", Erase.NULL)
REFUND = Personal("the refund at the gateway, and why it failed", "always: money", Erase.KEEP)
TRANSFER = Personal(
    "the transfer by which an operator gave money back: it may name a bank account", "always: money", Erase.NULL
)

_OPEN = ", ".join(f"'{status}'" for status in RefundStatus if status in OPEN)


class Refund(Table, tablename="refunds", db=columns.ENGINE):
    """The one refund of a pairing failure, or one of the refunds of an earned payment.

    It is stored before the gateway is asked for it. No row is deleted.
    """

    id = columns.identifier()
    payment_request_id = columns.plain_id(null=False, owner="PaymentRequest")
    # None: the money was earned, and a chat came of it.
    failure_id = columns.reference("PairingFailure", null=True, unique=True)
    amount = columns.number()
    status = columns.string(20, default="requested")
    reason = columns.text(null=True, personal=REASON)  # the operator's words, for operators only
    requested_by = columns.reference("Operator")
    requested_at = columns.moment(null=False)
    attempt = columns.number(default=1)  # how often operators have asked for it
    # The gateway's name for it, if that is not the id of the failure, or without one that of the refund.
    reference = columns.plain_id()
    earlier_references = columns.plain_ids()  # its names in attempts that have failed there: a late call may have one
    gateway_refund_id = columns.string(255, null=True, unique=True, personal=REFUND)
    by_hand = columns.flag()  # an operator has moved the money, by the transfer with this reference
    hand_reference = columns.string(255, null=True, personal=TRANSFER)
    failure_code = columns.string(100, null=True, personal=REFUND)
    asks = columns.number(default=0)  # how often the gateway was asked in this attempt
    ask_at = columns.moment()  # when to ask the gateway next
    settled_at = columns.moment()
    created_at = columns.created()

    known_status = columns.words("status", RefundStatus)
    sane = Check("amount > 0 AND attempt > 0 AND asks >= 0")
    settled_has_a_time = Check(f"(status IN ({_OPEN})) = (settled_at IS NULL)")
    open_is_asked_after = Check(f"(status IN ({_OPEN})) = (ask_at IS NOT NULL)")
    failed_has_a_code = Check("(status = 'failed') = (failure_code IS NOT NULL)")
    made_has_an_id = Check("status NOT IN ('pending', 'succeeded') OR gateway_refund_id IS NOT NULL OR by_hand")
    names_are_kept = Check("reference IS NULL OR earlier_references IS NOT NULL")
    one_name_an_attempt = Check("cardinality(earlier_references) <= attempt")
    by_hand_is_earned_and_done = Check(
        "NOT by_hand OR status = 'succeeded' AND failure_id IS NULL AND gateway_refund_id IS NULL"
    )
    transfer_is_by_hand = Check("hand_reference IS NULL OR by_hand")
