-- The refunds of pairing failures through the gateway (docs/fairness.md#refunds).
CREATE TABLE IF NOT EXISTS refunds (
  id UUID PRIMARY KEY NOT NULL,
  failure_id UUID NOT NULL UNIQUE REFERENCES pairing_failures (id) ON DELETE RESTRICT,
  amount INTEGER NOT NULL,
  status VARCHAR(20) NOT NULL DEFAULT 'requested',
  reason TEXT,
  requested_by UUID NOT NULL,
  requested_at TIMESTAMPTZ NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 1,
  gateway_refund_id VARCHAR(255) UNIQUE,
  failure_code VARCHAR(100),
  asks INTEGER NOT NULL DEFAULT 0,
  ask_at TIMESTAMPTZ,
  settled_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT refunds_known_status CHECK (status IN ('requested', 'pending', 'succeeded', 'failed')),
  CONSTRAINT refunds_sane CHECK (amount > 0 AND attempt > 0 AND asks >= 0),
  CONSTRAINT refunds_settled_has_a_time CHECK ((status IN ('requested', 'pending')) = (settled_at IS NULL)),
  CONSTRAINT refunds_open_is_asked_after CHECK ((status IN ('requested', 'pending')) = (ask_at IS NOT NULL)),
  CONSTRAINT refunds_failed_has_a_code CHECK ((status = 'failed') = (failure_code IS NOT NULL)),
  CONSTRAINT refunds_made_has_an_id CHECK (status NOT IN ('pending', 'succeeded') OR gateway_refund_id IS NOT NULL)
);
CREATE INDEX IF NOT EXISTS refunds_to_ask ON refunds (ask_at)
WHERE status IN ('requested', 'pending');

-- next transaction
ALTER TABLE refunds
DROP CONSTRAINT IF EXISTS refunds_requested_by_fkey,
ADD CONSTRAINT refunds_requested_by_fkey
FOREIGN KEY (requested_by) REFERENCES control_center_users (id) ON DELETE RESTRICT;

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

-- Money goes back once (docs/invariants.md#i3): checked at the commit. While a refund is open, no operator's action is
-- recorded. While it is open or the money may have gone back (core/refunds/rules.py), the customer has not tried again.
-- A refund that has succeeded is the action of its failure.
CREATE OR REPLACE FUNCTION refund_is_whole() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  wrong record;
BEGIN
  SELECT r.id, r.status, f.operator_action, f.superseded_at, p.status AS payment
    INTO wrong
    FROM refunds r
    JOIN pairing_failures f ON f.id = r.failure_id
    JOIN payment_requests p ON p.id = f.payment_request_id
    WHERE r.failure_id = CASE TG_TABLE_NAME
        WHEN 'refunds' THEN (to_jsonb(NEW) ->> 'failure_id')::uuid ELSE NEW.id END
      AND (
        r.amount <> f.amount
        OR (
          r.status IN ('requested', 'pending', 'succeeded')
          OR r.failure_code IN ('MAXIMUM_REFUND_AMOUNT_REACHED', 'AMOUNT_DIFFERS')
        )
        AND (f.superseded_at IS NOT NULL OR p.status <> 'failed_pairing')
        OR r.status IN ('requested', 'pending') AND f.operator_action IS NOT NULL
        OR r.status = 'succeeded' AND (
          f.operator_action IS DISTINCT FROM 'refunded' OR f.actioned_by IS DISTINCT FROM r.requested_by
        )
      );
  IF FOUND THEN
    RAISE EXCEPTION 'refund % (%): its failure is %, its payment %', wrong.id, wrong.status,
      coalesce(wrong.operator_action, 'open'), wrong.payment USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS refund_is_whole ON refunds;
CREATE CONSTRAINT TRIGGER refund_is_whole
AFTER INSERT OR UPDATE OF status, amount, failure_id, failure_code ON refunds
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION refund_is_whole();
