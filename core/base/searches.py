"""A payment request's searches, one after the other: all but the newest have failed or were cancelled."""

# An ORDER BY of chat_sessions. The one that goes on comes first, whatever the clocks have said.
NEWEST_FIRST = "status IN ('failed', 'cancelled'), created_at DESC, id DESC"
