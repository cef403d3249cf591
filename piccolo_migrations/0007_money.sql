-- sha256 3d55fc00603b67af62e742316caf658ce93781f1f5809170b3e39cbfca749169
-- Refunds of earned money (docs/product.md#making-good), short payments, and the one reason of a failure.
--
-- A refund belongs to a payment request, and to its pairing failure if it has one. The first and the last statement of
-- each table are in separate transactions where an index needs the new column.
ALTER TABLE refunds
ADD COLUMN IF NOT EXISTS payment_request_id UUID,
ADD COLUMN IF NOT EXISTS reference UUID,
ADD COLUMN IF NOT EXISTS hand_reference VARCHAR(255),
ALTER COLUMN failure_id DROP NOT NULL,
DROP CONSTRAINT IF EXISTS refunds_made_has_an_id,
DROP CONSTRAINT IF EXISTS refunds_by_hand_is_earned_and_done;
UPDATE refunds AS r
SET payment_request_id = f.payment_request_id
FROM pairing_failures AS f
WHERE f.id = r.failure_id AND r.payment_request_id IS NULL;
ALTER TABLE refunds
ALTER COLUMN payment_request_id SET NOT NULL,
ADD CONSTRAINT refunds_made_has_an_id CHECK (
  status NOT IN ('pending', 'succeeded') OR gateway_refund_id IS NOT NULL OR hand_reference IS NOT NULL
),
ADD CONSTRAINT refunds_by_hand_is_earned_and_done CHECK (
  hand_reference IS NULL OR status = 'succeeded' AND failure_id IS NULL AND gateway_refund_id IS NULL
);

-- next transaction
CREATE INDEX IF NOT EXISTS refunds_payment ON refunds (payment_request_id);
CREATE UNIQUE INDEX IF NOT EXISTS refunds_by_hand ON refunds (payment_request_id, hand_reference)
WHERE hand_reference IS NOT NULL;
-- The gateway names a refund by this id.
CREATE UNIQUE INDEX IF NOT EXISTS refunds_reference ON refunds (coalesce(reference, failure_id, id));

-- next transaction
-- A payment request is earned once, and refunded in any number of parts.
CREATE UNIQUE INDEX IF NOT EXISTS customer_transactions_earned ON customer_transactions (payment_request_id)
WHERE type <> 'refund';
CREATE INDEX IF NOT EXISTS customer_transactions_payment ON customer_transactions (payment_request_id);

-- next transaction
ALTER TABLE customer_transactions
ADD COLUMN IF NOT EXISTS refund_id UUID,
DROP CONSTRAINT IF EXISTS customer_transactions_payment_request_id_key,
DROP CONSTRAINT IF EXISTS customer_transactions_known_type,
ADD CONSTRAINT customer_transactions_known_type CHECK (type IN ('session', 'extension', 'refund')),
DROP CONSTRAINT IF EXISTS customer_transactions_refund_is_negative,
ADD CONSTRAINT customer_transactions_refund_is_negative CHECK (
  (type = 'refund') = (amount < 0) AND (type = 'refund') = (refund_id IS NOT NULL)
);

-- next transaction
CREATE UNIQUE INDEX IF NOT EXISTS customer_transactions_refund ON customer_transactions (refund_id)
WHERE refund_id IS NOT NULL;

-- next transaction
-- A request that was paid short has the amount that was paid, and what its invoice asked for.
ALTER TABLE payment_requests
ADD COLUMN IF NOT EXISTS asked_amount INTEGER,
DROP CONSTRAINT IF EXISTS payment_requests_short_is_less,
ADD CONSTRAINT payment_requests_short_is_less CHECK (asked_amount > amount);

-- next transaction
-- What exactly happened, and the other request of a customer who paid twice.
ALTER TABLE pairing_failures
ADD COLUMN IF NOT EXISTS sub_cause VARCHAR(20),
ADD COLUMN IF NOT EXISTS twin_id UUID,
DROP CONSTRAINT IF EXISTS pairing_failures_known_sub_cause,
ADD CONSTRAINT pairing_failures_known_sub_cause CHECK (
  sub_cause IN (
    'late', 'given_up', 'double', 'live_session', 'discount_used', 'erased', 'rejected', 'not_answered',
    'session_ended', 'mitra_inactive'
  )
);

-- next transaction
CREATE INDEX IF NOT EXISTS pairing_failures_twin ON pairing_failures (twin_id) WHERE twin_id IS NOT NULL;

-- next transaction
-- Each paid request is in exactly one place. A consumed one is earned once; what went back of it is at most that.
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
