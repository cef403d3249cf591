-- Up to where each side has sent, for messages that were stored before it was kept. Rows that nobody writes any more come
-- first: the chats under way are held for a moment only. What was stored meanwhile is counted already.
UPDATE chat_sessions s SET customer_sent_seq = greatest(s.customer_sent_seq, m.customer), mitra_sent_seq = greatest(s.mitra_sent_seq, m.mitra)
FROM (SELECT session_id, coalesce(max(seq) FILTER (WHERE sender_type = 'customer'), 0) AS customer,
    coalesce(max(seq) FILTER (WHERE sender_type = 'mitra'), 0) AS mitra FROM chat_messages GROUP BY session_id) m
WHERE s.id = m.session_id AND s.status NOT IN ('active', 'expired', 'closing')
  AND (s.customer_sent_seq < m.customer OR s.mitra_sent_seq < m.mitra);
UPDATE chat_sessions s SET customer_sent_seq = greatest(s.customer_sent_seq, m.customer), mitra_sent_seq = greatest(s.mitra_sent_seq, m.mitra)
FROM chat_sessions live
CROSS JOIN LATERAL (SELECT coalesce(max(seq) FILTER (WHERE sender_type = 'customer'), 0) AS customer,
    coalesce(max(seq) FILTER (WHERE sender_type = 'mitra'), 0) AS mitra FROM chat_messages WHERE session_id = live.id) m
WHERE s.id = live.id AND live.status IN ('active', 'expired', 'closing')
  AND (s.customer_sent_seq < m.customer OR s.mitra_sent_seq < m.mitra);
