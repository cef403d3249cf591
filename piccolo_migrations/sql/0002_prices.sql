-- A price never changes without its history row (docs/product.md#prices).

CREATE OR REPLACE FUNCTION price_has_history() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  newest jsonb;
  known boolean;
BEGIN
  IF TG_TABLE_NAME = 'pricing_tiers' THEN
    SELECT to_jsonb(t) INTO newest FROM pricing_tiers t WHERE t.id = NEW.id;
    SELECT EXISTS (SELECT 1 FROM pricing_tiers_history h WHERE h.pricing_tier_id = NEW.id AND h.after = newest)
      INTO known;
  ELSE
    SELECT to_jsonb(t) INTO newest FROM pricing_promotions t WHERE t.id = NEW.id;
    SELECT EXISTS (SELECT 1 FROM pricing_promotions_history h WHERE h.pricing_promotion_id = NEW.id AND h.after = newest)
      INTO known;
  END IF;
  IF newest IS NOT NULL AND NOT known THEN
    RAISE EXCEPTION '% %: a change without its history row', TG_TABLE_NAME, NEW.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS price_has_history ON pricing_tiers;
CREATE CONSTRAINT TRIGGER price_has_history
AFTER INSERT OR UPDATE ON pricing_tiers
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION price_has_history();

DROP TRIGGER IF EXISTS price_has_history ON pricing_promotions;
CREATE CONSTRAINT TRIGGER price_has_history
AFTER INSERT OR UPDATE ON pricing_promotions
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION price_has_history();
