-- One row for each stage of an event on each device (docs/fairness.md#delivery-trail), in partitions by the month of
-- the event's id.
CREATE TABLE IF NOT EXISTS delivery_trail (
  id UUID NOT NULL,
  event_id UUID NOT NULL,
  stage VARCHAR(20) NOT NULL,
  auth_session_id UUID,
  recipient_id UUID NOT NULL,
  event VARCHAR(40) NOT NULL,
  session_id UUID,
  payment_request_id UUID,
  at TIMESTAMPTZ NOT NULL,
  PRIMARY KEY (event_id, id),
  CONSTRAINT delivery_trail_once UNIQUE NULLS NOT DISTINCT (event_id, auth_session_id, stage),
  CONSTRAINT delivery_trail_known_stage CHECK (stage IN ('sent', 'acknowledged', 'pushed', 'opened', 'given_up')),
  CONSTRAINT delivery_trail_device CHECK (auth_session_id IS NOT NULL OR stage = 'given_up')
) PARTITION BY RANGE (event_id);
CREATE INDEX IF NOT EXISTS delivery_trail_session
ON delivery_trail (session_id, event_id) WHERE session_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS delivery_trail_payment
ON delivery_trail (payment_request_id, event_id) WHERE payment_request_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS delivery_trail_recipient ON delivery_trail (recipient_id, id);

-- A row says what happened, so it never changes. It is deleted with its month, or when its recipient is erased.
CREATE OR REPLACE FUNCTION delivery_trail_never_changes() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'delivery_trail: rows are never changed' USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER delivery_trail_never_changes
BEFORE UPDATE ON delivery_trail
FOR EACH ROW EXECUTE FUNCTION delivery_trail_never_changes();

-- The first partition takes the ids of at least 14 days; the other months are made after the migration.
DO $$
DECLARE
  next_month timestamp := date_trunc('month', timezone('UTC', now()) + interval '14 days') + interval '1 month';
  bound text := lpad(to_hex((date_part('epoch', next_month) * 1000)::bigint), 12, '0') || repeat('0', 20);
  owner name := (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'webhook_logs'::regclass);
  part text;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = 'delivery_trail'::regclass) THEN
    EXECUTE format(
      'CREATE TABLE %I PARTITION OF delivery_trail FOR VALUES FROM (MINVALUE) TO (%L)',
      'delivery_trail_before_' || to_char(next_month, 'YYYY_MM'), bound::uuid);
  END IF;
  -- The role that makes and removes months owns these tables (docs/database-roles.md).
  IF owner <> current_user THEN
    EXECUTE format('ALTER TABLE delivery_trail OWNER TO %I', owner);
    FOR part IN SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'delivery_trail'::regclass LOOP
      EXECUTE format('ALTER TABLE %s OWNER TO %I', part, owner);
    END LOOP;
  END IF;
END $$;

-- The payment request of a stored event without a session.
CREATE OR REPLACE FUNCTION payment_of_delivery(session_id UUID, payload TEXT) RETURNS UUID LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN session_id IS NULL THEN coalesce(
    payload::jsonb #>> '{payment_request,payment_request_id}', payload::jsonb ->> 'payment_request_id'
  )::uuid END
$$;

-- What is known of an event: from its delivery, or after that is deleted, from the trail.
CREATE OR REPLACE FUNCTION known_event(p_event_id UUID)
RETURNS TABLE (recipient_id UUID, event VARCHAR, session_id UUID, payment_request_id UUID) LANGUAGE sql STABLE AS $$
  (
    SELECT d.recipient_id, d.event, d.session_id, payment_of_delivery(d.session_id, d.payload)
    FROM deliveries d
    WHERE d.id = p_event_id
  )
  UNION ALL
  (
    SELECT t.recipient_id, t.event, t.session_id, t.payment_request_id
    FROM delivery_trail t
    WHERE t.event_id = p_event_id
    LIMIT 1
  )
  LIMIT 1
$$;
