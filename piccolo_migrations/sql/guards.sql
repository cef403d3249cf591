-- What the database refuses by itself, whatever the code does. Safe to run again.

-- States move along the declared edges only (core/payments/states.py, core/sessions/states.py; a test holds them equal).
CREATE OR REPLACE FUNCTION payment_request_edge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
    ('pending', 'confirmed'), ('pending', 'abandoned'), ('pending', 'expired'), ('pending', 'failed_pairing'),
    ('confirmed', 'consumed'), ('confirmed', 'failed_pairing'),
    ('expired', 'confirmed'), ('expired', 'failed_pairing'), ('abandoned', 'failed_pairing'),
    ('failed_pairing', 'confirmed')
  ) THEN
    RAISE EXCEPTION 'payment request %: % -> % is no transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER payment_request_edge BEFORE UPDATE OF status ON payment_requests
  FOR EACH ROW EXECUTE FUNCTION payment_request_edge();

CREATE OR REPLACE FUNCTION chat_session_edge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
    ('searching', 'active'), ('searching', 'cancelled'), ('searching', 'failed'),
    ('active', 'expired'), ('active', 'closing'), ('expired', 'active'),
    ('expired', 'closing'), ('expired', 'completed'), ('closing', 'completed')
  ) THEN
    RAISE EXCEPTION 'chat session %: % -> % is no transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.mitra_id IS NOT NULL AND NEW.mitra_id IS DISTINCT FROM OLD.mitra_id THEN
    RAISE EXCEPTION 'chat session %: a mitra is set once', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER chat_session_edge BEFORE UPDATE OF status, mitra_id ON chat_sessions
  FOR EACH ROW EXECUTE FUNCTION chat_session_edge();

-- Conservation of money, at every commit (contract 4): each paid request is in exactly one place.
CREATE OR REPLACE FUNCTION money_is_conserved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  p payment_requests%ROWTYPE;
  earned int; earned_right int; failures int; failures_right int; chats int;
BEGIN
  SELECT * INTO p FROM payment_requests WHERE id = CASE TG_TABLE_NAME
    WHEN 'payment_requests' THEN (to_jsonb(NEW) ->> 'id')::uuid ELSE (to_jsonb(NEW) ->> 'payment_request_id')::uuid END;
  IF NOT FOUND THEN RETURN NULL; END IF;
  SELECT count(*), count(*) FILTER (WHERE amount = p.amount
      AND type = CASE WHEN p.is_extension THEN 'extension' ELSE 'session' END)
    INTO earned, earned_right FROM customer_transactions WHERE payment_request_id = p.id;
  SELECT count(*), count(*) FILTER (WHERE amount = p.amount)
    INTO failures, failures_right FROM pairing_failures WHERE payment_request_id = p.id AND superseded_at IS NULL;
  IF p.is_extension THEN
    SELECT count(*) INTO chats FROM session_extensions
      WHERE payment_request_id = p.id AND status IN ('approved', 'auto_approved');
  ELSE
    SELECT count(*) INTO chats FROM chat_sessions WHERE payment_request_id = p.id AND paired_at IS NOT NULL;
  END IF;
  IF p.status = 'consumed' AND NOT (earned = 1 AND earned_right = 1 AND failures = 0 AND chats = 1)
    OR p.status = 'failed_pairing' AND NOT (earned = 0 AND failures = 1 AND failures_right = 1 AND chats = 0)
    OR p.status NOT IN ('consumed', 'failed_pairing') AND NOT (earned = 0 AND failures = 0 AND chats = 0)
  THEN
    RAISE EXCEPTION 'payment request % (%): % transactions, % failures, % chats', p.id, p.status, earned, failures, chats
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS money_is_conserved ON payment_requests;
CREATE CONSTRAINT TRIGGER money_is_conserved AFTER INSERT OR UPDATE OF status, amount ON payment_requests
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION money_is_conserved();
DROP TRIGGER IF EXISTS money_is_conserved ON customer_transactions;
CREATE CONSTRAINT TRIGGER money_is_conserved AFTER INSERT OR UPDATE ON customer_transactions
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.payment_request_id IS NOT NULL) EXECUTE FUNCTION money_is_conserved();
DROP TRIGGER IF EXISTS money_is_conserved ON pairing_failures;
CREATE CONSTRAINT TRIGGER money_is_conserved AFTER INSERT OR UPDATE OF superseded_at, amount ON pairing_failures
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION money_is_conserved();

-- The one predicate of "free for a request": the availability count, the blast, the targeted check and the accept use it.
CREATE OR REPLACE FUNCTION free_mitras(p_now timestamptz, p_require_ping boolean, p_stale_seconds int, p_capacity int)
RETURNS TABLE (mitra_id uuid, active_session_count int) LANGUAGE sql STABLE AS $$
  SELECT m.id, load.sessions
  FROM mitras m
  JOIN mitra_online_status o ON o.mitra_id = m.id
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS sessions FROM chat_sessions s
    WHERE s.mitra_id = m.id AND s.status IN ('active', 'expired')
  ) load
  WHERE m.is_active AND o.is_online
    AND (NOT p_require_ping OR o.last_heartbeat_at + make_interval(secs => p_stale_seconds) > p_now)
    AND load.sessions < p_capacity
$$;
