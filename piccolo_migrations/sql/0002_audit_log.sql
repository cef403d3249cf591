-- The operators' audit log is append-only. Only the personal fields of one customer's rows can be emptied
-- (docs/product.md#audit-log).

-- Return one side of a row (`before` or `after`) with null in each field that may name a person.
CREATE OR REPLACE FUNCTION operator_audit_blanked(entry JSONB) RETURNS JSONB LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(entry) <> 'object' OR entry = '{}' THEN entry ELSE (
    SELECT jsonb_object_agg(key, CASE
      WHEN key IN ('phone', 'email', 'display_name', 'name', 'reason', 'note') THEN 'null'
      ELSE value
    END)
    FROM jsonb_each(entry)
  ) END
$$;

-- Only blank_operator_audit_log turns the setting on. A client that sets it by hand can empty those fields, and change
-- nothing else.
CREATE OR REPLACE FUNCTION operator_audit_log_is_append_only() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND current_setting('sesi.blanks_audit_log', true) = 'on' THEN
    IF to_jsonb(NEW) = to_jsonb(OLD) || jsonb_build_object(
      'before', operator_audit_blanked(OLD.before), 'after', operator_audit_blanked(OLD.after))
    THEN
      RETURN NEW;
    END IF;
  END IF;
  RAISE EXCEPTION 'operator_audit_log: rows are neither changed nor deleted' USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER operator_audit_log_is_append_only
BEFORE UPDATE OR DELETE ON operator_audit_log
FOR EACH ROW EXECUTE FUNCTION operator_audit_log_is_append_only();
CREATE OR REPLACE TRIGGER operator_audit_log_is_not_truncated
BEFORE TRUNCATE ON operator_audit_log
FOR EACH STATEMENT EXECUTE FUNCTION operator_audit_log_is_append_only();

-- Empty the personal fields of every row about a customer, or about a session, payment or failed pairing of the
-- customer. Return the number of rows that had any.
CREATE OR REPLACE FUNCTION blank_operator_audit_log(blanked_customer_id UUID) RETURNS INTEGER
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
SET sesi.blanks_audit_log = 'on' -- noqa: PRS
AS $$
DECLARE
  blanked integer;
BEGIN
  UPDATE operator_audit_log a
  SET before = operator_audit_blanked(a.before), after = operator_audit_blanked(a.after)
  WHERE a.object_id IN (
      SELECT blanked_customer_id::text
      UNION ALL
      SELECT s.id::text FROM chat_sessions s WHERE s.customer_id = blanked_customer_id
      UNION ALL
      SELECT p.id::text FROM payment_requests p WHERE p.customer_id = blanked_customer_id
      UNION ALL
      SELECT f.id::text
      FROM pairing_failures f
      JOIN payment_requests p ON p.id = f.payment_request_id
      WHERE p.customer_id = blanked_customer_id
    )
    AND (
      a.before IS DISTINCT FROM operator_audit_blanked(a.before)
      OR a.after IS DISTINCT FROM operator_audit_blanked(a.after)
    );
  GET DIAGNOSTICS blanked = ROW_COUNT;
  RETURN blanked;
END $$;
REVOKE ALL ON FUNCTION blank_operator_audit_log(uuid) FROM public;
