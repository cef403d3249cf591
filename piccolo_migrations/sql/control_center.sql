-- The activity summary reads a range of requests by index alone.
CREATE INDEX IF NOT EXISTS mitra_online_logs_timestamp ON mitra_online_logs ("timestamp");
CREATE INDEX IF NOT EXISTS chat_request_notifications_activity ON chat_request_notifications (notified_at) INCLUDE (mitra_id, response);
CREATE INDEX IF NOT EXISTS chat_sessions_paired ON chat_sessions (paired_at) INCLUDE (mitra_id, topic_sensitivity) WHERE paired_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS payment_requests_paid ON payment_requests (confirmed_at) INCLUDE (amount) WHERE confirmed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS customers_created ON customers (created_at, id);
CREATE INDEX IF NOT EXISTS mitras_created ON mitras (created_at, id);
CREATE INDEX IF NOT EXISTS control_center_users_created ON control_center_users (created_at, id);
CREATE INDEX IF NOT EXISTS operator_audit_log_object ON operator_audit_log (object_id, created_at);
CREATE INDEX IF NOT EXISTS webhook_logs_errors ON webhook_logs (received_at) WHERE http_status >= 400;

-- A price never changes without its history row (specification, pricing_tiers, pricing_promotions and their history tables).
CREATE OR REPLACE FUNCTION price_has_history() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  newest jsonb;
  known boolean;
BEGIN
  IF TG_TABLE_NAME = 'pricing_tiers' THEN
    SELECT to_jsonb(t) INTO newest FROM pricing_tiers t WHERE t.id = NEW.id;
    SELECT EXISTS (SELECT 1 FROM pricing_tiers_history h WHERE h.pricing_tier_id = NEW.id AND h.after = newest) INTO known;
  ELSE
    SELECT to_jsonb(t) INTO newest FROM pricing_promotions t WHERE t.id = NEW.id;
    SELECT EXISTS (SELECT 1 FROM pricing_promotions_history h WHERE h.pricing_promotion_id = NEW.id AND h.after = newest) INTO known;
  END IF;
  IF newest IS NOT NULL AND NOT known THEN
    RAISE EXCEPTION '% %: a change without its history row', TG_TABLE_NAME, NEW.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS price_has_history ON pricing_tiers;
CREATE CONSTRAINT TRIGGER price_has_history AFTER INSERT OR UPDATE ON pricing_tiers
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION price_has_history();
DROP TRIGGER IF EXISTS price_has_history ON pricing_promotions;
CREATE CONSTRAINT TRIGGER price_has_history AFTER INSERT OR UPDATE ON pricing_promotions
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION price_has_history();
