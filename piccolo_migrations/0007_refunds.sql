-- A refund keeps the names by which the gateway has its failed attempts.
ALTER TABLE refunds ADD COLUMN IF NOT EXISTS earlier_references UUID[];
UPDATE refunds SET earlier_references = ARRAY[failure_id]
WHERE reference IS NOT NULL AND earlier_references IS NULL;
ALTER TABLE refunds DROP CONSTRAINT IF EXISTS refunds_names_are_kept;
ALTER TABLE refunds
ADD CONSTRAINT refunds_names_are_kept CHECK (reference IS NULL OR earlier_references IS NOT NULL) NOT VALID;
ALTER TABLE refunds DROP CONSTRAINT IF EXISTS refunds_one_name_an_attempt;
ALTER TABLE refunds
ADD CONSTRAINT refunds_one_name_an_attempt CHECK (cardinality(earlier_references) <= attempt) NOT VALID;

-- next transaction
CREATE INDEX IF NOT EXISTS refunds_earlier ON refunds USING gin (earlier_references)
WHERE earlier_references IS NOT NULL;

-- next transaction
-- Check the rows that were there before. This blocks no reader or writer.
ALTER TABLE refunds VALIDATE CONSTRAINT refunds_names_are_kept;
ALTER TABLE refunds VALIDATE CONSTRAINT refunds_one_name_an_attempt;
