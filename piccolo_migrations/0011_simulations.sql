-- sha256 fa0460047897b94f64af9ca22cf8255cb3b6933e892cc5416be32756ae268311
-- Simulations: what other settings would do (docs/simulation.md).
CREATE TABLE IF NOT EXISTS simulations (
  id UUID PRIMARY KEY NOT NULL,
  asked_by UUID NOT NULL,
  asked_at TIMESTAMPTZ NOT NULL,
  since_days INTEGER NOT NULL,
  settings JSONB NOT NULL,
  extra_shifts TEXT[] NOT NULL,
  runner UUID,
  claimed_until_real_at TIMESTAMPTZ,
  percent INTEGER NOT NULL DEFAULT 0,
  ended_at TIMESTAMPTZ,
  failure VARCHAR(24),
  details JSONB,
  result JSONB,
  CONSTRAINT simulations_known_failure CHECK (failure IN ('not_enough_history', 'too_slow', 'died')),
  CONSTRAINT simulations_ends_with_one CHECK ((ended_at IS NOT NULL)::INT = num_nonnulls(failure, result))
);
-- One waits or runs at a time.
CREATE UNIQUE INDEX IF NOT EXISTS simulations_one_at_a_time ON simulations ((ended_at IS NULL)) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS simulations_asked ON simulations (asked_at, id);

-- next transaction
ALTER TABLE simulations DROP CONSTRAINT IF EXISTS simulations_asked_by_fkey;
ALTER TABLE simulations ADD CONSTRAINT simulations_asked_by_fkey
FOREIGN KEY (asked_by) REFERENCES control_center_users (id) ON DELETE RESTRICT;
