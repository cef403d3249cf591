-- Work that one process of the cluster does at a time, such as exporting the cluster's metrics. Real time.
CREATE TABLE IF NOT EXISTS cluster_leases (
  name VARCHAR(40) PRIMARY KEY,
  holder UUID,
  until_real_at TIMESTAMPTZ,
  done_real_at TIMESTAMPTZ
);

-- What the last audit found about each rule. Service time.
CREATE TABLE IF NOT EXISTS ledger_audit_results (
  rule VARCHAR(200) PRIMARY KEY,
  violations INT NOT NULL,
  first_ids TEXT[] NOT NULL,
  depth VARCHAR(8) NOT NULL,
  checked_at TIMESTAMPTZ NOT NULL,
  since_at TIMESTAMPTZ,
  CONSTRAINT ledger_audit_results_known_depth CHECK (depth IN ('cheap', 'full')),
  CONSTRAINT ledger_audit_results_since_while_broken CHECK ((violations > 0) = (since_at IS NOT NULL))
);
