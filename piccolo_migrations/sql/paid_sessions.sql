-- What only code enforced: a search needs a confirmed payment, a pairing a consumed one, and earned money stays as it is.

-- Checked at commit, when the pairing has consumed its payment. A session without a payment request can only be inserted
-- as completed (history of the time before payments, and the sessions that development seeds); such a session that runs
-- already goes on. Messages and timers change none of the columns below and cost nothing.
CREATE OR REPLACE FUNCTION session_is_paid() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  judged uuid[];
  wrong record;
BEGIN
  IF TG_TABLE_NAME = 'chat_sessions' THEN
    judged := ARRAY[NEW.id];
  ELSE
    judged := ARRAY(SELECT id FROM chat_sessions WHERE payment_request_id = NEW.id);
  END IF;
  SELECT s.id, s.status, coalesce(p.status, 'no payment request of its customer') AS payment INTO wrong
  FROM chat_sessions s
  LEFT JOIN payment_requests p ON p.id = s.payment_request_id AND p.customer_id = s.customer_id AND NOT p.is_extension
  WHERE s.id = ANY (judged) AND (s.status = 'searching' OR s.paired_at IS NOT NULL)
    AND p.status IS DISTINCT FROM CASE WHEN s.paired_at IS NULL THEN 'confirmed' ELSE 'consumed' END
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'chat session % (%): its payment is %', wrong.id, wrong.status, wrong.payment USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS session_is_paid_from_the_start ON chat_sessions;
CREATE CONSTRAINT TRIGGER session_is_paid_from_the_start AFTER INSERT ON chat_sessions
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.payment_request_id IS NOT NULL OR NEW.status <> 'completed')
  EXECUTE FUNCTION session_is_paid();
DROP TRIGGER IF EXISTS session_is_paid ON chat_sessions;
CREATE CONSTRAINT TRIGGER session_is_paid AFTER UPDATE OF paired_at, payment_request_id, customer_id ON chat_sessions
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.paired_at IS NULL AND NEW.paired_at IS NOT NULL OR NEW.payment_request_id IS DISTINCT FROM OLD.payment_request_id
    OR NEW.customer_id <> OLD.customer_id)
  EXECUTE FUNCTION session_is_paid();
-- Only a payment that leaves `confirmed` can leave a search or a chat unpaid: `consumed` is final.
DROP TRIGGER IF EXISTS session_is_paid ON payment_requests;
CREATE CONSTRAINT TRIGGER session_is_paid AFTER UPDATE OF status ON payment_requests
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status = 'confirmed' AND NEW.status <> 'confirmed')
  EXECUTE FUNCTION session_is_paid();

-- The ledger is append-only. No flow changes a row: accounts are joined by `account_belongs_to`, and their rows stay theirs.
CREATE OR REPLACE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% of customer_transactions: rows of the ledger stay as they are', TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE OR REPLACE TRIGGER ledger_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON customer_transactions
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
