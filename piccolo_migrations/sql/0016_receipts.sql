-- The receipt of a completed session (docs/fairness.md#receipt). The row is made by the transaction that completes the
-- session; the receipt is signed soon afterwards, and never changes.
CREATE TABLE IF NOT EXISTS session_receipts (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  talked_until TIMESTAMPTZ NOT NULL,
  completed_at TIMESTAMPTZ NOT NULL,
  body TEXT,
  key_id VARCHAR(64),
  signature VARCHAR(86),
  signed_at TIMESTAMPTZ,
  CONSTRAINT session_receipts_session_id_key UNIQUE (session_id),
  CONSTRAINT session_receipts_signed_is_whole CHECK (
    (signed_at IS NULL) = (body IS NULL)
    AND (signed_at IS NULL) = (key_id IS NULL)
    AND (signed_at IS NULL) = (signature IS NULL)
  )
);
CREATE INDEX IF NOT EXISTS session_receipts_unsigned ON session_receipts (completed_at) WHERE signed_at IS NULL;

-- Whatever completes a session, also a process of an older version, makes the row. The parties could talk until the end
-- of the paid time, or until an earlier end of the session.
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
