"""What a receipt says, and the text of it that is signed (docs/fairness.md#receipt)."""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Annotated

import attrs
import msgspec

from core.base.errors import DomainError, Repeat
from core.base.field_types import Count, Digest, SessionId
from core.base.languages import Text

Interval = tuple[dt.datetime, dt.datetime]  # half-open
NOTHING = dt.timedelta()
SECOND = dt.timedelta(seconds=1)
TimeText = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]


class SessionNotCompleted(DomainError):
    """The session is not completed, so it has no receipt yet."""

    code = "SESSION_NOT_COMPLETED"
    message = Text(
        en="The session is not completed. Its receipt is made when it is.",
        id="Sesi ini belum selesai. Tanda terimanya dibuat setelah selesai.",
    )
    repeat = Repeat.LATER
    advice = "Show the receipt when the session is completed."


class ReceiptNotReady(DomainError):
    """The session was completed a moment ago, and its receipt is not signed yet."""

    code = "RECEIPT_NOT_READY"
    message = Text(
        en="The receipt is not ready yet. Try again in a few seconds.",
        id="Tanda terima belum siap. Silakan coba lagi beberapa detik lagi.",
    )
    repeat = Repeat.WAIT
    advice = "Repeat the request after the wait, as the client library does."

    def __init__(self, *, retry_after_seconds: int = 1) -> None:
        super().__init__(retry_after_seconds=retry_after_seconds)


@attrs.frozen(kw_only=True)
class Receipt:
    """What a completed session was: seconds are whole seconds of service time.

    `seconds_both_could_talk` is the paid time in which the chat worked: the database took writes and a realtime process
    was there. `digest` is the chat's digest up to the last of `messages`; null if the texts were removed before an
    older version of the service could compute it, or if the database has lost the last message.
    """

    session_id: SessionId
    seconds_paid: Count
    seconds_both_could_talk: Count
    seconds_credited: Count
    messages: Count
    digest: Digest | None
    completed_at: TimeText


@attrs.frozen(kw_only=True)
class SignedReceipt:
    """A receipt with its signature: Ed25519 over its canonical JSON, in base64url without padding.

    The key `key_id` is in `/.well-known/sesi-receipts.json`.
    """

    receipt: Receipt
    key_id: str
    signature: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{86}$")]


@attrs.frozen(kw_only=True)
class Prolonged:
    """A later end of the paid time: `at` is when an extension was approved, or when credited time began to be lost.

    A credit may be committed after an extension before which its time was lost: the end that the extension met had that
    time.
    """

    at: dt.datetime
    by: dt.timedelta
    is_extension: bool


def canonical(receipt: Receipt) -> bytes:
    """Return the text that is signed: JSON with sorted keys, no spaces and integers only, in UTF-8."""
    return msgspec.json.encode(receipt, order="sorted")


def talking_times(
    *, paired_at: dt.datetime, minutes: int, prolonged: Iterable[Prolonged], until: dt.datetime
) -> list[Interval]:
    """Return the disjoint intervals in which paid time ran, in order, up to `until`.

    Paid time starts at `paired_at` with `minutes`. An extension after its end starts it again; the time between does
    not count. Time that was lost from the extension on is credited to what the extension began.
    """
    found: list[Interval] = []
    begin, end = paired_at, paired_at + dt.timedelta(minutes=minutes)
    for one in sorted(prolonged, key=lambda later: (later.at, not later.is_extension)):
        if one.is_extension and one.at > end:
            found.append((begin, end))
            begin = end = one.at
        end += one.by
    found.append((begin, until))
    return [(since, min(to, until)) for since, to in found if since < min(to, until)]


def seconds_without(times: Sequence[Interval], outages: Sequence[Interval]) -> int:
    """Return the length of `times` without the parts in `outages`, in whole seconds. Both are disjoint intervals."""
    whole = sum((end - begin for begin, end in times), NOTHING)
    lost = sum(
        (max(NOTHING, min(end, to) - max(begin, since)) for begin, end in times for since, to in outages), NOTHING
    )
    return (whole - lost) // SECOND
