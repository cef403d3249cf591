-- Where a trace goes on (docs/traces.md): null unless the confirmation or the beginning of the search was traced.
ALTER TABLE payment_requests
ADD COLUMN IF NOT EXISTS traceparent varchar(55);
-- next transaction
ALTER TABLE chat_sessions
ADD COLUMN IF NOT EXISTS traceparent varchar(55);
