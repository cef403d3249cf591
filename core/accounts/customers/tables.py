"""The table of customers."""

from piccolo.columns.base import OnDelete
from piccolo.constraints import Check
from piccolo.table import Table

from core.storage import columns
from core.storage.personal import Erase, Personal

KEPT = "as long as the customer; anonymous ones without a payment `retention_unused_anonymous_days`"
SIGN_IN = Personal("sign-in", KEPT, Erase.NULL, exported=True)
NAME = Personal("mitras must know how to address them", KEPT, Erase.NULL, exported=True)
REASON = Personal("why an operator has blocked the account", "until it is lifted", Erase.NULL)
PUSH = Personal("the newest device's address for pushes", "until the device signs out", Erase.NULL)


class Customer(Table, tablename="customers", db=columns.ENGINE):
    """A person who pays for sessions. The migrations add partial unique indexes on the two identity subjects."""

    id = columns.identifier(owner=True)
    legacy_uid = columns.string(255, null=True, unique=True, personal=SIGN_IN)
    phone = columns.string(20, null=True, unique=True, personal=SIGN_IN)
    display_name = columns.string(100, null=True, personal=NAME)
    is_anonymous = columns.flag(default=True)
    email = columns.string(255, null=True, personal=SIGN_IN)
    identity_a_sub = columns.string(255, null=True, personal=SIGN_IN)
    identity_b_sub = columns.string(255, null=True, personal=SIGN_IN)
    push_token = columns.string(255, null=True, personal=PUSH)
    # Points an anonymous row to the customer that it joined. Payments and sessions stay with the anonymous row.
    account_belongs_to = columns.reference("Customer", null=True, on_delete=OnDelete.set_null)
    # Real time of the join, for the processes that poll for changes.
    joined_real_at = columns.moment()
    usp_seen = columns.flag()
    # An erased customer with the same phone or identity had used up the first-session discount.
    had_first_session = columns.flag()
    # Since when an operator has blocked the account, and until when; without an end, until it is lifted.
    blocked_at = columns.moment()
    blocked_until = columns.moment()
    block_reason = columns.text(null=True, personal=REASON)
    exported_at = columns.moment()
    erased_at = columns.moment()
    created_at = columns.created()

    block_is_whole = Check("blocked_at IS NOT NULL OR blocked_until IS NULL AND block_reason IS NULL")
