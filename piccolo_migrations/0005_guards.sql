-- sha256 fe19cf2aae1024ddffa9edf8e1f04fdf58e01c2af7c49a5e3ebfb302a9b1c37c
-- Triggers that refuse what no use case may do (docs/invariants.md).

-- States change along the declared edges only (docs/invariants.md#i8). `make migration` writes these functions from
-- the states.py of each domain.

CREATE OR REPLACE FUNCTION payment_request_edge() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
    ('pending', 'confirmed'), ('pending', 'abandoned'), ('pending', 'expired'), ('pending', 'failed_pairing'),
    ('confirmed', 'consumed'), ('confirmed', 'failed_pairing'),
    ('expired', 'confirmed'), ('expired', 'failed_pairing'),
    ('abandoned', 'failed_pairing'),
    ('failed_pairing', 'confirmed')
  ) THEN
    RAISE EXCEPTION 'payment request %: % -> % is no transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER payment_request_edge
BEFORE UPDATE OF status ON payment_requests
FOR EACH ROW EXECUTE FUNCTION payment_request_edge();

CREATE OR REPLACE FUNCTION chat_session_edge() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
    ('searching', 'active'), ('searching', 'cancelled'), ('searching', 'failed'),
    ('active', 'expired'), ('active', 'closing'),
    ('expired', 'active'), ('expired', 'closing'), ('expired', 'completed'),
    ('closing', 'completed')
  ) THEN
    RAISE EXCEPTION 'chat session %: % -> % is no transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.mitra_id IS NOT NULL AND NEW.mitra_id IS DISTINCT FROM OLD.mitra_id THEN
    RAISE EXCEPTION 'chat session %: a mitra is set once', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER chat_session_edge
BEFORE UPDATE OF status, mitra_id ON chat_sessions
FOR EACH ROW EXECUTE FUNCTION chat_session_edge();

CREATE OR REPLACE FUNCTION session_extension_edge() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
    ('pending', 'approved'), ('pending', 'auto_approved'), ('pending', 'rejected'), ('pending', 'safeguard_tripped')
  ) THEN
    RAISE EXCEPTION 'extension %: % -> % is no transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER session_extension_edge
BEFORE UPDATE OF status ON session_extensions
FOR EACH ROW EXECUTE FUNCTION session_extension_edge();

CREATE OR REPLACE FUNCTION refund_edge() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
    ('requested', 'pending'), ('requested', 'succeeded'), ('requested', 'failed'),
    ('pending', 'succeeded'), ('pending', 'failed'),
    ('failed', 'requested'), ('failed', 'succeeded')
  ) THEN
    RAISE EXCEPTION 'refund %: % -> % is no transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER refund_edge
BEFORE UPDATE OF status ON refunds
FOR EACH ROW EXECUTE FUNCTION refund_edge();

-- Money (docs/invariants.md#i3): each paid request is in exactly one place, sessions are paid, and the ledger is
-- append-only. A consumed request is earned once, and what went back of it is at most that. Constraint triggers check
-- at the commit, when a flow has written all its rows.

CREATE OR REPLACE FUNCTION money_is_conserved() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  p payment_requests%ROWTYPE;
  earned int; earned_right int; refunded bigint; failures int; failures_right int; chats int;
BEGIN
  SELECT * INTO p FROM payment_requests WHERE id = CASE TG_TABLE_NAME
    WHEN 'payment_requests' THEN (to_jsonb(NEW) ->> 'id')::uuid ELSE (to_jsonb(NEW) ->> 'payment_request_id')::uuid END;
  IF NOT FOUND THEN RETURN NULL; END IF;
  SELECT
      count(*) FILTER (WHERE type <> 'refund'),
      count(*) FILTER (WHERE amount = p.amount AND type = CASE WHEN p.is_extension THEN 'extension' ELSE 'session' END),
      coalesce(-sum(amount) FILTER (WHERE type = 'refund'), 0)
    INTO earned, earned_right, refunded
    FROM customer_transactions
    WHERE payment_request_id = p.id;
  SELECT count(*), count(*) FILTER (WHERE amount = p.amount)
    INTO failures, failures_right
    FROM pairing_failures
    WHERE payment_request_id = p.id AND superseded_at IS NULL;
  IF p.is_extension THEN
    SELECT count(*) INTO chats
      FROM session_extensions
      WHERE payment_request_id = p.id AND is_earning(status);
  ELSE
    SELECT count(*) INTO chats
      FROM chat_sessions
      WHERE payment_request_id = p.id AND paired_at IS NOT NULL;
  END IF;
  IF p.status = 'consumed' AND NOT (earned = 1 AND earned_right = 1 AND failures = 0 AND chats = 1)
    OR p.status = 'failed_pairing' AND NOT (earned = 0 AND failures = 1 AND failures_right = 1 AND chats = 0)
    OR p.status NOT IN ('consumed', 'failed_pairing') AND NOT (earned = 0 AND failures = 0 AND chats = 0)
    OR refunded > (CASE WHEN p.status = 'consumed' THEN p.amount ELSE 0 END)
  THEN
    RAISE EXCEPTION 'payment request % (%): % transactions, % refunded, % failures, % chats',
      p.id, p.status, earned, refunded, failures, chats USING ERRCODE = 'check_violation';
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

-- Money goes back once (docs/invariants.md#i3): checked at the commit. While a refund of a failure is open, no
-- operator's action is recorded. While it is open or the money may have gone back (core/payments/refunds/rules.py), the
-- customer has not tried again. A refund that has succeeded is the action of its failure.
--
-- The refunds of earned money that are open or done are together at most what was earned, and each one that is done
-- has its row in the ledger. The lock makes two transactions see each other's refunds; use cases hold it at once.
CREATE OR REPLACE FUNCTION refund_is_whole() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  wrong record;
  of_failure uuid := CASE TG_TABLE_NAME WHEN 'refunds' THEN (to_jsonb(NEW) ->> 'failure_id')::uuid ELSE NEW.id END;
  of_payment uuid := (to_jsonb(NEW) ->> 'payment_request_id')::uuid;
BEGIN
  SELECT r.id, r.status, f.operator_action, f.superseded_at, p.status AS payment
    INTO wrong
    FROM refunds r
    JOIN pairing_failures f ON f.id = r.failure_id
    JOIN payment_requests p ON p.id = f.payment_request_id
    WHERE r.failure_id = of_failure
      AND (
        r.amount <> f.amount
        OR r.payment_request_id <> p.id
        OR (
          r.status IN ('requested', 'pending', 'succeeded')
          OR r.failure_code IN ('MAXIMUM_REFUND_AMOUNT_REACHED', 'AMOUNT_DIFFERS')
        )
        AND (f.superseded_at IS NOT NULL OR p.status <> 'failed_pairing')
        OR is_open_refund(r.status) AND f.operator_action IS NOT NULL
        OR r.status = 'succeeded' AND (
          f.operator_action IS DISTINCT FROM 'refunded' OR f.actioned_by IS DISTINCT FROM r.requested_by
        )
      );
  IF FOUND THEN
    RAISE EXCEPTION 'refund % (%): its failure is %, its payment %', wrong.id, wrong.status,
      coalesce(wrong.operator_action, 'open'), wrong.payment USING ERRCODE = 'check_violation';
  END IF;
  IF of_failure IS NOT NULL THEN RETURN NULL; END IF;
  PERFORM FROM payment_requests WHERE id = of_payment FOR NO KEY UPDATE;
  SELECT p.status, p.amount, r.amount AS refunds, r.done, t.booked
    INTO wrong
    FROM (
      SELECT
        coalesce(sum(amount) FILTER (WHERE status <> 'failed'), 0) AS amount,
        coalesce(sum(amount) FILTER (WHERE status = 'succeeded'), 0) AS done
      FROM refunds
      WHERE payment_request_id = of_payment AND failure_id IS NULL
    ) AS r
    CROSS JOIN (
      SELECT coalesce(-sum(t.amount), 0) AS booked
      FROM customer_transactions t
      JOIN refunds s ON s.id = t.refund_id
        AND s.payment_request_id = t.payment_request_id AND s.status = 'succeeded' AND s.amount = -t.amount
      WHERE t.payment_request_id = of_payment
    ) AS t
    LEFT JOIN payment_requests p ON p.id = of_payment
    WHERE p.status IS DISTINCT FROM 'consumed' OR r.amount > p.amount OR r.done <> t.booked;
  IF FOUND THEN
    RAISE EXCEPTION 'refund % (%) of payment request % (%): % of %, % done, % in the ledger', NEW.id, NEW.status,
      of_payment, wrong.status, wrong.refunds, wrong.amount, wrong.done, wrong.booked USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS refund_is_whole ON refunds;
CREATE CONSTRAINT TRIGGER refund_is_whole
AFTER INSERT OR UPDATE OF status, amount, failure_id, failure_code ON refunds
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION refund_is_whole();

DROP TRIGGER IF EXISTS refund_is_whole ON pairing_failures;
CREATE CONSTRAINT TRIGGER refund_is_whole
AFTER UPDATE OF operator_action, superseded_at, amount ON pairing_failures
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION refund_is_whole();

-- A chat message belongs to a session that exists. A foreign key would be checked for each message, a fifth of what
-- PostgreSQL spends on one; these triggers check once for each statement. Every batch holds the rows of its sessions
-- locked.

CREATE OR REPLACE FUNCTION chat_messages_have_sessions() RETURNS TRIGGER LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM stored WHERE NOT EXISTS (SELECT 1 FROM chat_sessions s WHERE s.id = stored.session_id)) THEN
    RAISE EXCEPTION 'a chat message of no session' USING ERRCODE = 'foreign_key_violation';
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER chat_messages_have_sessions
AFTER INSERT ON chat_messages
REFERENCING NEW TABLE AS stored
FOR EACH STATEMENT EXECUTE FUNCTION chat_messages_have_sessions();

CREATE OR REPLACE FUNCTION chat_message_stays() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.session_id <> OLD.session_id THEN
    RAISE EXCEPTION 'chat message %: it stays in its session', OLD.id USING ERRCODE = 'foreign_key_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER chat_message_stays
BEFORE UPDATE OF session_id ON chat_messages
FOR EACH ROW EXECUTE FUNCTION chat_message_stays();

CREATE OR REPLACE FUNCTION chat_session_keeps_messages() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM chat_messages WHERE session_id = OLD.id) THEN
    RAISE EXCEPTION 'chat session %: it has messages', OLD.id USING ERRCODE = 'foreign_key_violation';
  END IF;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE OR REPLACE TRIGGER chat_session_keeps_messages
BEFORE DELETE OR UPDATE OF id ON chat_sessions
FOR EACH ROW EXECUTE FUNCTION chat_session_keeps_messages();

CREATE OR REPLACE FUNCTION chat_sessions_keep_messages() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM chat_messages) THEN
    RAISE EXCEPTION 'chat sessions: there are messages' USING ERRCODE = 'foreign_key_violation';
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER chat_sessions_keep_messages
AFTER TRUNCATE ON chat_sessions
FOR EACH STATEMENT EXECUTE FUNCTION chat_sessions_keep_messages();

-- A blanking is final, and only a completed session can be blanked. It is the only change of a text that the database
-- allows.
CREATE OR REPLACE FUNCTION chat_session_stays_blanked() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'chat session %: its blanking is final', OLD.id USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER chat_session_stays_blanked
BEFORE UPDATE OF blanked_at ON chat_sessions
FOR EACH ROW WHEN (OLD.blanked_at IS DISTINCT FROM NEW.blanked_at AND OLD.blanked_at IS NOT NULL)
EXECUTE FUNCTION chat_session_stays_blanked();

CREATE OR REPLACE FUNCTION session_closure_stays() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.message = '' AND EXISTS (SELECT 1 FROM chat_sessions WHERE id = NEW.session_id AND blanked_at IS NOT NULL) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'goodbye %: a text is never changed, only blanked with its session', OLD.id
    USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER session_closure_stays
BEFORE UPDATE OF message ON session_closures
FOR EACH ROW WHEN (OLD.message IS DISTINCT FROM NEW.message)
EXECUTE FUNCTION session_closure_stays();

-- A message keeps its text and metadata. Both can be emptied after their session was blanked.
CREATE OR REPLACE FUNCTION chat_message_text_stays() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.content = '' AND NEW.metadata IS NULL
    AND EXISTS (SELECT 1 FROM chat_sessions WHERE id = NEW.session_id AND blanked_at IS NOT NULL)
  THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'chat message %: a text is never changed, only blanked with its session', OLD.id
    USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER chat_message_text_stays
BEFORE UPDATE OF content, metadata ON chat_messages
FOR EACH ROW WHEN (OLD.content IS DISTINCT FROM NEW.content OR OLD.metadata IS DISTINCT FROM NEW.metadata)
EXECUTE FUNCTION chat_message_text_stays();

-- The transaction that completes a session makes the row of its receipt. The parties could talk until the end of the
-- paid time, or until an earlier end of the session.
CREATE OR REPLACE FUNCTION chat_session_gets_receipt() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO session_receipts (id, session_id, talked_until, completed_at)
  VALUES (gen_random_uuid(), NEW.id, least(OLD.expires_at, OLD.ended_at), NEW.ended_at)
  ON CONFLICT (session_id) DO NOTHING;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER chat_session_gets_receipt
AFTER UPDATE OF status ON chat_sessions
FOR EACH ROW WHEN (NEW.status = 'completed' AND OLD.status <> 'completed' AND NEW.ended_at IS NOT NULL)
EXECUTE FUNCTION chat_session_gets_receipt();

CREATE OR REPLACE FUNCTION session_receipt_stays() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'receipt of session %: a signed receipt never changes', OLD.session_id
    USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER session_receipt_stays
BEFORE UPDATE ON session_receipts
FOR EACH ROW WHEN (OLD.signed_at IS NOT NULL)
EXECUTE FUNCTION session_receipt_stays();

-- A price never changes without its history row (docs/product.md#prices).

CREATE OR REPLACE FUNCTION price_has_history() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  newest jsonb;
  known boolean;
BEGIN
  IF TG_TABLE_NAME = 'pricing_tiers' THEN
    SELECT to_jsonb(t) INTO newest FROM pricing_tiers t WHERE t.id = NEW.id;
    SELECT EXISTS (SELECT 1 FROM pricing_tiers_history h WHERE h.pricing_tier_id = NEW.id AND h.after = newest)
      INTO known;
  ELSE
    SELECT to_jsonb(t) INTO newest FROM pricing_promotions t WHERE t.id = NEW.id;
    SELECT EXISTS (SELECT 1 FROM pricing_promotions_history h WHERE h.pricing_promotion_id = NEW.id AND h.after = newest)
      INTO known;
  END IF;
  IF newest IS NOT NULL AND NOT known THEN
    RAISE EXCEPTION '% %: a change without its history row', TG_TABLE_NAME, NEW.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS price_has_history ON pricing_tiers;
CREATE CONSTRAINT TRIGGER price_has_history
AFTER INSERT OR UPDATE ON pricing_tiers
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION price_has_history();

DROP TRIGGER IF EXISTS price_has_history ON pricing_promotions;
CREATE CONSTRAINT TRIGGER price_has_history
AFTER INSERT OR UPDATE ON pricing_promotions
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION price_has_history();

-- The operators' audit log is append-only. Only the personal fields of one customer's rows can be emptied
-- (docs/product.md#audit-log).

-- Return one side of a row (`before` or `after`) with null in each field that may name a person.
CREATE OR REPLACE FUNCTION operator_audit_blanked(entry JSONB) RETURNS JSONB LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(entry) <> 'object' OR entry = '{}' THEN entry ELSE (
    SELECT jsonb_object_agg(key, CASE
      WHEN key IN ('phone', 'email', 'display_name', 'name', 'reason', 'note') THEN 'null'
      ELSE value
    END)
    FROM jsonb_each(entry)
  ) END
$$;

-- Only blank_operator_audit_log turns the setting on. A client that sets it by hand can empty those fields, and change
-- nothing else.
CREATE OR REPLACE FUNCTION operator_audit_log_is_append_only() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND current_setting('sesi.blanks_audit_log', true) = 'on' THEN
    IF to_jsonb(NEW) = to_jsonb(OLD) || jsonb_build_object(
      'before', operator_audit_blanked(OLD.before), 'after', operator_audit_blanked(OLD.after))
    THEN
      RETURN NEW;
    END IF;
  END IF;
  RAISE EXCEPTION 'operator_audit_log: rows are neither changed nor deleted' USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER operator_audit_log_is_append_only
BEFORE UPDATE OR DELETE ON operator_audit_log
FOR EACH ROW EXECUTE FUNCTION operator_audit_log_is_append_only();
CREATE OR REPLACE TRIGGER operator_audit_log_is_not_truncated
BEFORE TRUNCATE ON operator_audit_log
FOR EACH STATEMENT EXECUTE FUNCTION operator_audit_log_is_append_only();

-- Empty the personal fields of every row about a customer, or about a session, payment or failed pairing of the
-- customer. Return the number of rows that had any.
CREATE OR REPLACE FUNCTION blank_operator_audit_log(blanked_customer_id UUID) RETURNS INTEGER
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  blanked integer;
BEGIN
  PERFORM set_config('sesi.blanks_audit_log', 'on', true);
  UPDATE operator_audit_log a
  SET before = operator_audit_blanked(a.before), after = operator_audit_blanked(a.after)
  WHERE a.object_id IN (
      SELECT blanked_customer_id::text
      UNION ALL
      SELECT s.id::text FROM chat_sessions s WHERE s.customer_id = blanked_customer_id
      UNION ALL
      SELECT p.id::text FROM payment_requests p WHERE p.customer_id = blanked_customer_id
      UNION ALL
      SELECT f.id::text
      FROM pairing_failures f
      JOIN payment_requests p ON p.id = f.payment_request_id
      WHERE p.customer_id = blanked_customer_id
    )
    AND (
      a.before IS DISTINCT FROM operator_audit_blanked(a.before)
      OR a.after IS DISTINCT FROM operator_audit_blanked(a.after)
    );
  GET DIAGNOSTICS blanked = ROW_COUNT;
  PERFORM set_config('sesi.blanks_audit_log', 'off', true);
  RETURN blanked;
END $$;
REVOKE ALL ON FUNCTION blank_operator_audit_log(uuid) FROM public;

-- A row says what happened, so it never changes. It is deleted with its month, or when its recipient is erased.
CREATE OR REPLACE FUNCTION delivery_trail_never_changes() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'delivery_trail: rows are never changed' USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER delivery_trail_never_changes
BEFORE UPDATE ON delivery_trail
FOR EACH ROW EXECUTE FUNCTION delivery_trail_never_changes();
