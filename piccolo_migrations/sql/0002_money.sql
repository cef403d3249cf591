-- Money (docs/invariants.md#i3): each paid request is in exactly one place, sessions are paid, and the ledger is
-- append-only. Constraint triggers check at the commit, when a flow has written all its rows.

CREATE OR REPLACE FUNCTION money_is_conserved() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  p payment_requests%ROWTYPE;
  earned int; earned_right int; failures int; failures_right int; chats int;
BEGIN
  SELECT * INTO p FROM payment_requests WHERE id = CASE TG_TABLE_NAME
    WHEN 'payment_requests' THEN (to_jsonb(NEW) ->> 'id')::uuid ELSE (to_jsonb(NEW) ->> 'payment_request_id')::uuid END;
  IF NOT FOUND THEN RETURN NULL; END IF;
  SELECT
      count(*),
      count(*) FILTER (WHERE amount = p.amount AND type = CASE WHEN p.is_extension THEN 'extension' ELSE 'session' END)
    INTO earned, earned_right
    FROM customer_transactions
    WHERE payment_request_id = p.id;
  SELECT count(*), count(*) FILTER (WHERE amount = p.amount)
    INTO failures, failures_right
    FROM pairing_failures
    WHERE payment_request_id = p.id AND superseded_at IS NULL;
  IF p.is_extension THEN
    SELECT count(*) INTO chats
      FROM session_extensions
      WHERE payment_request_id = p.id AND status IN ('approved', 'auto_approved');
  ELSE
    SELECT count(*) INTO chats
      FROM chat_sessions
      WHERE payment_request_id = p.id AND paired_at IS NOT NULL;
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
CREATE CONSTRAINT TRIGGER money_is_conserved
AFTER INSERT OR UPDATE OF status, amount ON payment_requests
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION money_is_conserved();

DROP TRIGGER IF EXISTS money_is_conserved ON customer_transactions;
CREATE CONSTRAINT TRIGGER money_is_conserved
AFTER INSERT OR UPDATE ON customer_transactions
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.payment_request_id IS NOT NULL) EXECUTE FUNCTION money_is_conserved();

DROP TRIGGER IF EXISTS money_is_conserved ON pairing_failures;
CREATE CONSTRAINT TRIGGER money_is_conserved
AFTER INSERT OR UPDATE OF superseded_at, amount ON pairing_failures
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION money_is_conserved();

-- A search needs a confirmed payment, and a pairing a consumed one. A session without a payment request can only be
-- inserted as completed: history from before the payments, and the sessions that `sesi seed` makes. Messages and timers
-- change none of the columns below and cost nothing.
CREATE OR REPLACE FUNCTION session_is_paid() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  judged uuid[];
  wrong record;
BEGIN
  IF TG_TABLE_NAME = 'chat_sessions' THEN
    judged := ARRAY[NEW.id];
  ELSE
    judged := ARRAY(SELECT id FROM chat_sessions WHERE payment_request_id = NEW.id);
  END IF;
  SELECT s.id, s.status, coalesce(p.status, 'no payment request of its customer') AS payment
    INTO wrong
    FROM chat_sessions s
    LEFT JOIN payment_requests p ON p.id = s.payment_request_id AND p.customer_id = s.customer_id AND NOT p.is_extension
    WHERE s.id = ANY (judged)
      AND (s.status = 'searching' OR s.paired_at IS NOT NULL)
      AND p.status IS DISTINCT FROM CASE WHEN s.paired_at IS NULL THEN 'confirmed' ELSE 'consumed' END
    LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'chat session % (%): its payment is %', wrong.id, wrong.status, wrong.payment
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS session_is_paid_from_the_start ON chat_sessions;
CREATE CONSTRAINT TRIGGER session_is_paid_from_the_start
AFTER INSERT ON chat_sessions
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.payment_request_id IS NOT NULL OR NEW.status <> 'completed')
EXECUTE FUNCTION session_is_paid();

DROP TRIGGER IF EXISTS session_is_paid ON chat_sessions;
CREATE CONSTRAINT TRIGGER session_is_paid
AFTER UPDATE OF paired_at, payment_request_id, customer_id ON chat_sessions
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (
  OLD.paired_at IS NULL AND NEW.paired_at IS NOT NULL
  OR NEW.payment_request_id IS DISTINCT FROM OLD.payment_request_id
  OR NEW.customer_id <> OLD.customer_id
)
EXECUTE FUNCTION session_is_paid();

-- `consumed` is final, so only a payment that leaves `confirmed` can leave a search or a chat unpaid.
DROP TRIGGER IF EXISTS session_is_paid ON payment_requests;
CREATE CONSTRAINT TRIGGER session_is_paid
AFTER UPDATE OF status ON payment_requests
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (OLD.status = 'confirmed' AND NEW.status <> 'confirmed')
EXECUTE FUNCTION session_is_paid();

-- No flow changes a row of the ledger. When accounts are merged, the rows stay with the old one (`account_belongs_to`).
CREATE OR REPLACE FUNCTION ledger_is_append_only() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of customer_transactions: rows of the ledger stay as they are', TG_OP
    USING ERRCODE = 'restrict_violation';
END $$;
CREATE OR REPLACE TRIGGER ledger_is_append_only
BEFORE UPDATE OR DELETE OR TRUNCATE ON customer_transactions
FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
