-- A message keeps its text and metadata. Both can be emptied after their session was blanked.
CREATE OR REPLACE FUNCTION chat_message_text_stays() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.content = '' AND NEW.metadata IS NULL
    AND EXISTS (SELECT 1 FROM chat_sessions WHERE id = NEW.session_id AND blanked_at IS NOT NULL)
  THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'chat message %: a text is never changed, only blanked with its session', OLD.id
    USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER chat_message_text_stays
BEFORE UPDATE OF content, metadata ON chat_messages
FOR EACH ROW WHEN (OLD.content IS DISTINCT FROM NEW.content OR OLD.metadata IS DISTINCT FROM NEW.metadata)
EXECUTE FUNCTION chat_message_text_stays();
