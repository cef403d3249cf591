-- sha256 4dfe8f55765afecfe08d693cdde9c2aaf9afd570196b9e8ba14bac5f8de021b9
-- A failure says that an operator ended the search, not the customer (docs/product.md#cause-tags).
ALTER TABLE pairing_failures DROP CONSTRAINT IF EXISTS pairing_failures_known_sub_cause;
ALTER TABLE pairing_failures
ADD CONSTRAINT pairing_failures_known_sub_cause CHECK (
  sub_cause IN (
    'late',
    'given_up',
    'double',
    'live_session',
    'discount_used',
    'erased',
    'by_operator',
    'rejected',
    'not_answered',
    'session_ended',
    'mitra_inactive'
  )
) NOT VALID;

-- next transaction
-- Check the rows that were there before. This blocks no reader or writer.
ALTER TABLE pairing_failures VALIDATE CONSTRAINT pairing_failures_known_sub_cause;
