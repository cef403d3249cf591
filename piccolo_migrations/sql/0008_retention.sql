-- Sessions whose texts were blanked. A blanking is final, and only a completed session can be blanked. It is the only
-- change of a text that the database allows (0008_message_texts.sql).
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS blanked_at TIMESTAMPTZ;
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS blanked_seq INT;
ALTER TABLE chat_sessions DROP CONSTRAINT IF EXISTS chat_sessions_blanked_is_completed;
ALTER TABLE chat_sessions
ADD CONSTRAINT chat_sessions_blanked_is_completed CHECK (blanked_at IS NULL OR status = 'completed') NOT VALID;
ALTER TABLE chat_sessions DROP CONSTRAINT IF EXISTS chat_sessions_blanking_has_begun;
ALTER TABLE chat_sessions
ADD CONSTRAINT chat_sessions_blanking_has_begun CHECK (blanked_seq IS NULL OR blanked_at IS NOT NULL) NOT VALID;

CREATE OR REPLACE FUNCTION chat_session_stays_blanked() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'chat session %: its blanking is final', OLD.id USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER chat_session_stays_blanked
BEFORE UPDATE OF blanked_at ON chat_sessions
FOR EACH ROW WHEN (OLD.blanked_at IS DISTINCT FROM NEW.blanked_at AND OLD.blanked_at IS NOT NULL)
EXECUTE FUNCTION chat_session_stays_blanked();

-- next transaction
CREATE OR REPLACE FUNCTION session_closure_stays() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.message = '' AND EXISTS (SELECT 1 FROM chat_sessions WHERE id = NEW.session_id AND blanked_at IS NOT NULL) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'goodbye %: a text is never changed, only blanked with its session', OLD.id
    USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER session_closure_stays
BEFORE UPDATE OF message ON session_closures
FOR EACH ROW WHEN (OLD.message IS DISTINCT FROM NEW.message)
EXECUTE FUNCTION session_closure_stays();
