"""The entries of a timeline about parties who were absent."""

from typing import Any

from core.desk.timeline.entries import TimelineEntry
from core.storage.records import plain


def of_absence(row: Any) -> list[TimelineEntry]:
    """Return the entries of an absence and of the party's return."""
    session_id, who = plain(row["session_id"]), row["user_type"]
    seconds = round((row["declared_at"] - row["since"]).total_seconds())
    text = f"The {who} was away: no sign of life for {seconds} s."
    found = [TimelineEntry(at=row["declared_at"], kind="party_absent", text=text, session_id=session_id)]
    if row["returned"]:
        seconds = round((row["ended_at"] - row["since"]).total_seconds())
        text = f"The {who} returned after {seconds} s."
        found.append(TimelineEntry(at=row["ended_at"], kind="party_returned", text=text, session_id=session_id))
    return found
