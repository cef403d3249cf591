-- sha256 3b5c8b028ee26d4495ccf0198c14c8ce6cc6d2d4b276fd5bad1634d233a5bba0
-- Devices that have events and messages without showing them (docs/protocol.md#events): pushes leave them out.
ALTER TABLE deliveries ADD COLUMN IF NOT EXISTS unshown_on UUID[];

-- next transaction
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS customer_unshown JSONB;
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS mitra_unshown JSONB;
