-- name: rows
-- All stored rows, with the operator who changed each one last.
SELECT
  k.key,
  k.value,
  k.updated_at,
  k.updated_by,
  o.display_name
FROM app_config AS k
LEFT JOIN control_center_users AS o ON o.id = k.updated_by;
