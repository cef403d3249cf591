"""Chat sessions and what hangs on them (specification, Resources: chat_sessions, session_closures, …)."""

from piccolo.columns.base import OnDelete
from piccolo.constraints import Check, Unique
from piccolo.table import Table

from core.storage import columns


class ChatSession(Table, tablename="chat_sessions"):
    """A paid session, from the search for a mitra to the goodbye.

    A message moves `last_seq` and the marks, so no index may stand on them (updates stay heap-only).
    """

    id = columns.identifier()
    customer_id = columns.reference("Customer")
    mitra_id = columns.reference("Mitra", null=True)
    payment_request_id = columns.reference("PaymentRequest", null=True)
    mode = columns.string(10, default="chat")
    status = columns.string(30, default="searching")
    created_at = columns.created()
    paired_at = columns.moment()
    ended_at = columns.moment()
    ended_by = columns.string(20, null=True)
    duration_minutes = columns.number(null=True)
    price = columns.number(default=0)
    is_first_session_discount = columns.flag()
    expires_at = columns.moment()
    extended_minutes = columns.number(default=0)
    topic_sensitivity = columns.string(16, default="regular")
    topics = columns.texts()
    # The search: the mitra it asks, and its two deadlines.
    targeted_mitra_id = columns.reference("Mitra", null=True)
    round_number = columns.number(default=0)
    round_ends_at = columns.moment()
    search_ends_at = columns.moment()
    # When the number of asked mitras is repeated to the customer; null when it has not grown.
    asked_repeat_at = columns.moment()
    # When the 180 s warning is due for this expires_at; null when there is none or it is given.
    warn_at = columns.moment()
    # When `expired` or `closing` is completed by itself.
    grace_ends_at = columns.moment()
    # The chat's place: how many messages there are, and up to where each side has got and read them.
    last_seq = columns.number(default=0)
    customer_delivered_seq = columns.number(default=0)
    customer_read_seq = columns.number(default=0)
    mitra_delivered_seq = columns.number(default=0)
    mitra_read_seq = columns.number(default=0)
    # The newest message of each side.
    customer_sent_seq = columns.number(default=0)
    mitra_sent_seq = columns.number(default=0)
    # A side whose mark is below this has had its push; it gets no other until the mark has moved.
    customer_pushed_seq = columns.number(default=0)
    mitra_pushed_seq = columns.number(default=0)
    customer_delivered_at = columns.moment()
    customer_read_at = columns.moment()
    mitra_delivered_at = columns.moment()
    mitra_read_at = columns.moment()

    known_mode = Check("mode in ('chat', 'call')")
    known_status = Check("status in ('searching', 'active', 'expired', 'closing', 'completed', 'cancelled', 'failed')")
    known_ended_by = Check("ended_by in ('customer', 'mitra', 'timer', 'operator')")
    known_sensitivity = Check("topic_sensitivity in ('regular', 'sensitive')")
    paired_is_whole = Check("(mitra_id is null) = (paired_at is null)")
    running_is_paired = Check(
        "status not in ('active', 'expired', 'closing', 'completed') or (mitra_id is not null and expires_at is not null)"
    )
    unpaired_is_alone = Check("status not in ('searching', 'cancelled', 'failed') or mitra_id is null")
    searching_has_deadlines = Check(
        "status <> 'searching' or (round_ends_at is not null and search_ends_at is not null)"
    )


class SessionClosure(Table, tablename="session_closures"):
    """A party's goodbye."""

    id = columns.identifier()
    session_id = columns.reference("ChatSession")
    user_type = columns.string(10)
    user_id = columns.plain_id(null=False)
    message = columns.text()
    created_at = columns.created()

    one_a_side = Unique(["session_id", "user_type"])
    known_user_type = Check("user_type in ('customer', 'mitra')")


class SessionSensitivityLog(Table, tablename="session_sensitivity_log"):
    """One row for each flip of the topic flag."""

    id = columns.identifier()
    session_id = columns.reference("ChatSession", on_delete=OnDelete.cascade)
    changed_by_mitra_id = columns.reference("Mitra")
    from_value = columns.string(16)
    to_value = columns.string(16)
    created_at = columns.created()
