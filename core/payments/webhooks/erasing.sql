-- name: bodies
-- The bodies of at most $4 calls above $3 about payment requests ($1) and invoices ($2). MATERIALIZED, because
-- PostgreSQL would plan the LIMIT as a scan of the whole table in the order of ids.
WITH about AS MATERIALIZED (
  SELECT id
  FROM webhook_logs
  WHERE external_id = ANY($1::text[]) OR gateway_invoice_id = ANY($2::text[])
)

SELECT
  w.id::text,
  w.raw_body
FROM webhook_logs AS w
WHERE
  w.id = ANY(ARRAY(
    SELECT id
    FROM about
    WHERE id > $3
    ORDER BY id
    LIMIT $4
  ))
ORDER BY w.id;

-- name: replace_body
-- Store a masked body.
UPDATE webhook_logs
SET raw_body = $2
WHERE id = $1;

-- name: replace_free_body
-- Store a masked body, unless the call is locked.
UPDATE webhook_logs
SET raw_body = $2
WHERE
  id = ANY(ARRAY(
    SELECT id
    FROM webhook_logs
    WHERE id = $1
    FOR UPDATE SKIP LOCKED
  ));
