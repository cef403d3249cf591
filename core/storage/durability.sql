-- name: find
-- What the server reports, and the settings of roles and databases that override it.
SELECT
  current_setting('transaction_read_only') = 'on' AS read_only,
  current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes,
  current_setting('synchronous_standby_names') AS names,
  (SELECT count(*) FROM pg_stat_replication) AS standbys,
  array(
    SELECT concat_ws(' IN DATABASE ', 'ALTER ROLE ' || coalesce(quote_ident(r.rolname), 'ALL'), quote_ident(d.datname))
    FROM pg_db_role_setting AS s
    LEFT JOIN pg_roles AS r ON r.oid = s.setrole
    LEFT JOIN pg_database AS d ON d.oid = s.setdatabase
    WHERE
      'synchronous_commit=off' = ANY(s.setconfig)
      AND (s.setdatabase = 0 OR d.datname = current_database())
      AND (s.setrole = 0 OR coalesce(has_table_privilege(s.setrole, to_regclass('chat_sessions'), 'INSERT'), true))
    ORDER BY 1
  ) AS overrides;
