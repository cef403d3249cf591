-- Whether a session asked a mitra, without reading all whom it asked: a search among a thousand mitras would read a million
-- rows to find out that nobody is left to ask. It also finds all requests of a session.
-- Building an index holds the writers of its table. On a service that is large already, create it before the migration, by
-- this line with CONCURRENTLY: what is there is left alone.
SET LOCAL lock_timeout = '5s';
CREATE INDEX IF NOT EXISTS chat_request_notifications_asked ON chat_request_notifications (session_id, mitra_id);
DROP INDEX IF EXISTS chat_request_notifications_session;
