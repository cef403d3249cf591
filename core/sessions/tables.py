"""The tables of chat sessions, their goodbyes and the log of their topic sensitivity."""

from piccolo.columns.base import OnDelete
from piccolo.constraints import Check, Unique
from piccolo.table import Table

from core.base.field_types import Mode, Party
from core.sessions.rules import CreditReason, EndedBy
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import PAIRED, UNPAIRED, SessionStatus
from core.storage import columns
from core.storage.personal import Erase, Personal

_PAIRED = ", ".join(f"'{status}'" for status in SessionStatus if status in PAIRED)
_WITHOUT_MITRA = ", ".join(f"'{status}'" for status in SessionStatus if status in UNPAIRED | {SessionStatus.SEARCHING})

TOPICS = Personal("the conversation's subject", "always", Erase.NULL, exported=True)
SENSITIVITY = Personal(
    "whether the subject is sensitive", "always", Erase.KEEP, "stays: a fact of the ledger of refunds", exported=True
)
TRACE = Personal("finds the [trace](traces.md) of a search; random ids", "as their rows", Erase.KEEP)
UNSHOWN = Personal("which devices have unread messages without showing them; ids, no content", "always", Erase.NULL)
GOODBYE = Personal(
    "goodbyes",
    "`retention_messages_days` after the end (0: always)",
    Erase.BY_HAND,
    "empty, both sides",
    exported=True,
)
CREDIT = Personal(
    "paid time that was given back, and why: a mitra's absence is one reason",
    "always: money",
    Erase.KEEP,
    exported=True,
)
CHANGE = Personal("who changed whether the subject is sensitive", "always", Erase.KEEP)


class ChatSession(Table, tablename="chat_sessions", db=columns.ENGINE):
    """A paid session, from the search for a mitra to the goodbyes.

    Each message updates `last_seq` and the markers. No index may use these columns, so that the updates stay heap-only.
    """

    id = columns.identifier()
    customer_id = columns.reference("Customer", owner=True)
    mitra_id = columns.reference("Mitra", null=True)
    payment_request_id = columns.reference("PaymentRequest", null=True)
    mode = columns.string(10, default="chat")
    status = columns.string(30, default="searching")
    created_at = columns.created()
    paired_at = columns.moment()
    resumed_at = columns.moment()  # when an extension of the expired session last began; null without one
    ended_at = columns.moment()
    ended_by = columns.string(20, null=True)
    duration_minutes = columns.number(null=True)
    price = columns.number(default=0)
    is_first_session_discount = columns.flag()
    expires_at = columns.moment()
    extended_minutes = columns.number(default=0)
    topic_sensitivity = columns.string(16, default="regular", personal=SENSITIVITY)
    topics = columns.texts(personal=TOPICS)
    # The search: its mitra if it is targeted, and the ends of its round and of itself.
    targeted_mitra_id = columns.reference("Mitra", null=True)
    round_number = columns.number(default=0)
    round_ends_at = columns.moment()
    search_ends_at = columns.moment()
    # The newest wave of a blast, and when it ends; null if none is running.
    wave_number = columns.number(default=0)
    wave_ends_at = columns.moment()
    # When to send the customer the number of asked mitras again; null if it has not grown.
    asked_repeat_at = columns.moment()
    # When the warning for this `expires_at` is due; null without one, or after it was sent.
    warn_at = columns.moment()
    # When the jobs process completes an `expired` or `closing` session.
    grace_ends_at = columns.moment()
    # The chat's progress: the number of messages, and each side's delivered and read markers.
    last_seq = columns.number(default=0)
    customer_delivered_seq = columns.number(default=0)
    customer_read_seq = columns.number(default=0)
    mitra_delivered_seq = columns.number(default=0)
    mitra_read_seq = columns.number(default=0)
    # The `seq` of each side's newest message.
    customer_sent_seq = columns.number(default=0)
    mitra_sent_seq = columns.number(default=0)
    # While a side's delivered marker is below this, it has had its push and gets no other one.
    customer_pushed_seq = columns.number(default=0)
    mitra_pushed_seq = columns.number(default=0)
    # Devices of each side (auth session ids) that have messages without showing them -> up to which seq.
    customer_unshown = columns.json(personal=UNSHOWN)
    mitra_unshown = columns.json(personal=UNSHOWN)
    customer_delivered_at = columns.moment()
    customer_read_at = columns.moment()
    mitra_delivered_at = columns.moment()
    mitra_read_at = columns.moment()
    # When its texts were blanked. `blanked_seq` is null unless rows of messages still have texts: those after it.
    blanked_at = columns.moment()
    blanked_seq = columns.number(null=True)
    # The trace of the beginning of its search, if there is one (docs/traces.md).
    traceparent = columns.string(55, null=True, personal=TRACE)

    known_mode = columns.words("mode", Mode)
    known_status = columns.words("status", SessionStatus)
    known_ended_by = columns.words("ended_by", EndedBy)
    known_sensitivity = columns.words("topic_sensitivity", Sensitivity)
    paired_is_whole = Check("(mitra_id IS NULL) = (paired_at IS NULL)")
    running_is_paired = Check(f"status NOT IN ({_PAIRED}) OR (mitra_id IS NOT NULL AND expires_at IS NOT NULL)")
    unpaired_is_alone = Check(f"status NOT IN ({_WITHOUT_MITRA}) OR mitra_id IS NULL")
    searching_has_deadlines = Check(
        "status <> 'searching' OR (round_ends_at IS NOT NULL AND search_ends_at IS NOT NULL)"
    )
    blanked_is_completed = Check("blanked_at IS NULL OR status = 'completed'")
    blanking_has_begun = Check("blanked_seq IS NULL OR blanked_at IS NOT NULL")


class SessionClosure(Table, tablename="session_closures", db=columns.ENGINE):
    """The goodbye of one party."""

    id = columns.identifier()
    session_id = columns.reference("ChatSession", owner=True)
    user_type = columns.string(10)
    user_id = columns.plain_id(null=False)
    message = columns.text(personal=GOODBYE)
    created_at = columns.created()

    one_a_side = Unique(["session_id", "user_type"])
    known_user_type = columns.words("user_type", Party)


class SessionTimeCredit(Table, tablename="session_time_credits", db=columns.ENGINE):
    """Paid time that a session got back, because it was lost from `began_at` to `ended_at`.

    `milliseconds` leaves out the parts of the interval that other credits of the session cover.
    """

    id = columns.identifier()
    session_id = columns.reference("ChatSession", owner=True)
    reason = columns.string(16, personal=CREDIT)
    outage_id = columns.plain_id()
    began_at = columns.moment(null=False)
    ended_at = columns.moment(null=False)
    milliseconds = columns.number(personal=CREDIT)
    created_at = columns.created()

    outage_once = Unique(["session_id", "outage_id"])
    interval_once = Unique(["session_id", "reason", "began_at"])
    known_reason = columns.words("reason", CreditReason)
    outage_has_an_id = Check("(reason = 'mitra_absent') = (outage_id IS NULL)")
    end_after_begin = Check("ended_at > began_at")
    not_more_than_lost = Check(
        "milliseconds > 0 AND milliseconds <= ceil(extract(EPOCH FROM ended_at - began_at) * 1000)"
    )


class SessionSensitivityLog(Table, tablename="session_sensitivity_log", db=columns.ENGINE):
    """One row for each change of a session's topic sensitivity."""

    id = columns.identifier()
    session_id = columns.reference("ChatSession", on_delete=OnDelete.cascade)
    changed_by_mitra_id = columns.reference("Mitra")
    from_value = columns.string(16, personal=CHANGE)
    to_value = columns.string(16, personal=CHANGE)
    created_at = columns.created()
