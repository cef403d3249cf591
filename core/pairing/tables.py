"""The tables of invitations and of the rounds of searches."""

from piccolo.constraints import Check, Unique
from piccolo.table import Table

from core.pairing.rules import Response
from core.storage import columns


class ChatRequestNotification(Table, tablename="chat_request_notifications", db=columns.ENGINE):
    """One mitra, invited once to one session. `response` is null while the invitation is open."""

    id = columns.identifier()
    session_id = columns.reference("ChatSession")
    mitra_id = columns.reference("Mitra")
    round_number = columns.number(default=1)
    wave_number = columns.number(default=0)
    notified_at = columns.moment(null=False)
    answer_by = columns.moment(null=False)
    response = columns.string(20, null=True)
    responded_at = columns.moment()
    active_session_count = columns.number(default=0)
    lost_by_ms = columns.number(null=True)  # how long after the winner this mitra accepted; null unless they did

    known_response = columns.words("response", Response)
    answered_has_a_time = Check("(response IS NULL) = (responded_at IS NULL)")


class SearchRound(Table, tablename="search_rounds", db=columns.ENGINE):
    """One round of a search: the mitras that it could ask when it began, and how its invitations ended.

    Each count from `active` to `askable` is a part of the one before. Those of invitations are 0 until the round ends.
    """

    id = columns.identifier()
    session_id = columns.reference("ChatSession")
    round_number = columns.number()
    is_targeted = columns.flag()  # then all counts are about the one mitra
    began_at = columns.moment(null=False)
    ended_at = columns.moment()
    active = columns.number()
    online = columns.number()
    fresh = columns.number()
    with_room = columns.number()
    askable = columns.number()  # had not rejected the search before
    asked = columns.number(default=0)
    accepted = columns.number(default=0)
    rejected = columns.number(default=0)
    unanswered = columns.number(default=0)
    closed = columns.number(default=0)  # another mitra accepted first, or the customer cancelled or asked all mitras

    once = Unique(["session_id", "round_number"])
    narrowing = Check(
        "active >= online AND online >= fresh AND fresh >= with_room AND with_room >= askable AND askable >= 0"
    )
    adds_up = Check("asked = accepted + rejected + unanswered + closed")
