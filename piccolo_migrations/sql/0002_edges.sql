-- States change along the declared edges only (docs/invariants.md#i8). `make migration` writes these functions from
-- core/payments/states.py, core/sessions/states.py and core/extensions/states.py.

CREATE OR REPLACE FUNCTION payment_request_edge() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
    ('pending', 'confirmed'), ('pending', 'abandoned'), ('pending', 'expired'), ('pending', 'failed_pairing'),
    ('confirmed', 'consumed'), ('confirmed', 'failed_pairing'),
    ('expired', 'confirmed'), ('expired', 'failed_pairing'),
    ('abandoned', 'failed_pairing'),
    ('failed_pairing', 'confirmed')
  ) THEN
    RAISE EXCEPTION 'payment request %: % -> % is no transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER payment_request_edge
BEFORE UPDATE OF status ON payment_requests
FOR EACH ROW EXECUTE FUNCTION payment_request_edge();

CREATE OR REPLACE FUNCTION chat_session_edge() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
    ('searching', 'active'), ('searching', 'cancelled'), ('searching', 'failed'),
    ('active', 'expired'), ('active', 'closing'),
    ('expired', 'active'), ('expired', 'closing'), ('expired', 'completed'),
    ('closing', 'completed')
  ) THEN
    RAISE EXCEPTION 'chat session %: % -> % is no transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.mitra_id IS NOT NULL AND NEW.mitra_id IS DISTINCT FROM OLD.mitra_id THEN
    RAISE EXCEPTION 'chat session %: a mitra is set once', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER chat_session_edge
BEFORE UPDATE OF status, mitra_id ON chat_sessions
FOR EACH ROW EXECUTE FUNCTION chat_session_edge();

CREATE OR REPLACE FUNCTION session_extension_edge() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
    ('pending', 'approved'), ('pending', 'auto_approved'), ('pending', 'rejected'), ('pending', 'safeguard_tripped')
  ) THEN
    RAISE EXCEPTION 'extension %: % -> % is no transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER session_extension_edge
BEFORE UPDATE OF status ON session_extensions
FOR EACH ROW EXECUTE FUNCTION session_extension_edge();
