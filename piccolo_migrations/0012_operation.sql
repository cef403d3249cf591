-- sha256 f8841e07c8548f70ef910af2b2f34cc361fa721d6ed7970462782b1f245d8d4c
-- The process id of a lease (docs/doctor.md#database).
ALTER TABLE service_processes ADD COLUMN IF NOT EXISTS pid INTEGER;

-- next transaction
-- Violations that operators have accepted (docs/operating.md#audits).
CREATE TABLE IF NOT EXISTS accepted_violations (
  id UUID PRIMARY KEY NOT NULL,
  rule VARCHAR(200) NOT NULL,
  object_id VARCHAR(200) NOT NULL,
  detail VARCHAR(2000) NOT NULL,
  reason VARCHAR(1000) NOT NULL,
  operator_id UUID NOT NULL,
  accepted_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT accepted_violations_once UNIQUE (rule, object_id, detail)
);
