"""The order of a payment request's searches: all but the newest have failed or were cancelled."""

# ORDER BY for chat_sessions. A session that has not failed comes first, because creation times of different processes
# may be out of order.
NEWEST_FIRST = "status IN ('failed', 'cancelled'), created_at DESC, id DESC"
