"""The entries of a timeline about paid time that a session got back (docs/fairness.md#fair-clock)."""

from typing import Any

from core.desk.timeline.entries import TimelineEntry
from core.storage.records import plain

LOST = {
    "database": "the database could not be written",
    "realtime": "no realtime process was running",
    "mitra_absent": "the mitra was away",
}


def of_credit(row: Any) -> TimelineEntry:
    """Return the entry of one credit."""
    since, until = (f"{at:%H:%M:%S}" for at in (row["began_at"], row["ended_at"]))
    seconds = round(row["milliseconds"] / 1000)
    text = f"The session got {seconds} s back: {LOST[row['reason']]} from {since} to {until} UTC."
    return TimelineEntry(at=row["created_at"], kind="time_credited", text=text, session_id=plain(row["session_id"]))
