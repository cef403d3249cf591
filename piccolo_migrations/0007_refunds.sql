-- sha256 9e2817638a3c53dfc62d9f691adc5cd20f45613d0afe71b838491e9959038e8e
-- A refund keeps the names by which the gateway has its failed attempts. One by hand says so itself, because an erasure
-- empties the name of the transfer.
ALTER TABLE refunds ADD COLUMN IF NOT EXISTS earlier_references UUID[];
ALTER TABLE refunds ADD COLUMN IF NOT EXISTS by_hand BOOLEAN NOT NULL DEFAULT false;
UPDATE refunds SET by_hand = true
WHERE hand_reference IS NOT NULL AND NOT by_hand;
UPDATE refunds SET earlier_references = ARRAY[failure_id]
WHERE reference IS NOT NULL AND earlier_references IS NULL;
ALTER TABLE refunds DROP CONSTRAINT IF EXISTS refunds_names_are_kept;
ALTER TABLE refunds
ADD CONSTRAINT refunds_names_are_kept CHECK (reference IS NULL OR earlier_references IS NOT NULL) NOT VALID;
ALTER TABLE refunds DROP CONSTRAINT IF EXISTS refunds_one_name_an_attempt;
ALTER TABLE refunds
ADD CONSTRAINT refunds_one_name_an_attempt CHECK (cardinality(earlier_references) <= attempt) NOT VALID;
ALTER TABLE refunds DROP CONSTRAINT IF EXISTS refunds_made_has_an_id;
ALTER TABLE refunds
ADD CONSTRAINT refunds_made_has_an_id CHECK (
  status NOT IN ('pending', 'succeeded') OR gateway_refund_id IS NOT NULL OR by_hand
) NOT VALID;
ALTER TABLE refunds DROP CONSTRAINT IF EXISTS refunds_by_hand_is_earned_and_done;
ALTER TABLE refunds
ADD CONSTRAINT refunds_by_hand_is_earned_and_done CHECK (
  NOT by_hand OR status = 'succeeded' AND failure_id IS NULL AND gateway_refund_id IS NULL
) NOT VALID;
ALTER TABLE refunds DROP CONSTRAINT IF EXISTS refunds_transfer_is_by_hand;
ALTER TABLE refunds
ADD CONSTRAINT refunds_transfer_is_by_hand CHECK (
  hand_reference IS NULL OR by_hand
) NOT VALID;

-- next transaction
CREATE INDEX IF NOT EXISTS refunds_earlier ON refunds USING gin (earlier_references)
WHERE earlier_references IS NOT NULL;

-- next transaction
-- Check the rows that were there before. This blocks no reader or writer.
ALTER TABLE refunds VALIDATE CONSTRAINT refunds_names_are_kept;
ALTER TABLE refunds VALIDATE CONSTRAINT refunds_one_name_an_attempt;
ALTER TABLE refunds VALIDATE CONSTRAINT refunds_made_has_an_id;
ALTER TABLE refunds VALIDATE CONSTRAINT refunds_by_hand_is_earned_and_done;
ALTER TABLE refunds VALIDATE CONSTRAINT refunds_transfer_is_by_hand;
