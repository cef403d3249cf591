-- Separate roles for migrations, processes and reports (docs/database-roles.md). A superuser runs it with psql, as often
-- as they like; on a hosted database, its owner, who may create roles:
--
--   psql "postgresql://postgres@db/sesi" -v ON_ERROR_STOP=1 -f deploy/roles.sql
--
-- Run it before the first `sesi migrate`, and again after each one. The roles have no passwords: set them with \password.
-- Other names: -v migrate=… -v run=… -v jobs=… -v read=…
\if :{?migrate} \else \set migrate sesi_migrate \endif
\if :{?run} \else \set run sesi_run \endif
\if :{?jobs} \else \set jobs sesi_jobs \endif
\if :{?read} \else \set read sesi_read \endif
\set QUIET on

BEGIN;
-- Changing an owner locks the table, and all who come later wait behind the lock.
SET LOCAL lock_timeout = '2s';
-- PL/pgSQL can't see the variables of psql.
SELECT
  set_config('roles.migrate', :'migrate', true),
  set_config('roles.run', :'run', true),
  set_config('roles.jobs', :'jobs', true),
  set_config('roles.read', :'read', true)
\g /dev/null

-- Roles that can sign in, and nothing else. One whose password was replaced by a second login (docs/secrets.md) keeps
-- NOLOGIN.
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY[
    current_setting('roles.migrate'), current_setting('roles.run'), current_setting('roles.jobs'),
    current_setting('roles.read')
  ] LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = name) THEN
      EXECUTE format('CREATE ROLE %I LOGIN', name);
    END IF;
    -- Only a superuser may say NOSUPERUSER.
    IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = name
      AND (rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls OR NOT rolinherit)) THEN
      EXECUTE format('ALTER ROLE %I INHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', name);
    END IF;
  END LOOP;
  EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
  EXECUTE format(
    'GRANT CONNECT ON DATABASE %I TO %I, %I, %I, %I', current_database(), current_setting('roles.migrate'),
    current_setting('roles.run'), current_setting('roles.jobs'), current_setting('roles.read')
  );
  -- The first migration creates the extension pg_trgm, which PostgreSQL trusts.
  EXECUTE format('GRANT CREATE ON DATABASE %I TO %I', current_database(), current_setting('roles.migrate'));
END $$;

-- The jobs process may do what the others may, and owns the partitioned tables, so that it can make and remove months.
-- A migration must be able to change these tables, too, so the role of migrations is a member of the jobs role.
GRANT :"run" TO :"jobs";
GRANT :"jobs" TO :"migrate";
-- To change owners, one has to be a member of the new one, as a superuser is of each role.
SELECT format('GRANT %I TO CURRENT_USER', :'migrate') FROM pg_roles WHERE rolname = current_user AND NOT rolsuper
\gexec
DO $$
BEGIN
  -- The figures of the cluster include the standbys, which other users may not see. `sesi doctor` reads where the data
  -- and the archive are.
  EXECUTE format('GRANT pg_read_all_stats TO %I', current_setting('roles.jobs'));
  EXECUTE format('GRANT pg_read_all_settings TO %I', current_setting('roles.run'));
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING '%. An administrator of the server has to grant it.', SQLERRM;
END $$;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO :"migrate", :"run", :"jobs", :"read";
GRANT CREATE ON SCHEMA public TO :"migrate", :"jobs";

-- What the service asks for itself in each session, for sessions that a pooler or a program by hand opens without it.
ALTER ROLE :"run" SET statement_timeout = '4s';
ALTER ROLE :"run" SET lock_timeout = '3s';
ALTER ROLE :"run" SET idle_in_transaction_session_timeout = '8s';
ALTER ROLE :"jobs" SET statement_timeout = '4s';
ALTER ROLE :"jobs" SET lock_timeout = '3s';
ALTER ROLE :"jobs" SET idle_in_transaction_session_timeout = '8s';
ALTER ROLE :"migrate" SET idle_in_transaction_session_timeout = '15min';
ALTER ROLE :"read" SET default_transaction_read_only = on;
ALTER ROLE :"read" SET statement_timeout = '15min';
ALTER ROLE :"read" SET idle_in_transaction_session_timeout = '15min';

-- Tables, views, sequences and functions of earlier owners, but not those of extensions. Processes that still run with
-- such an owner keep the rights of the jobs process.
DO $$
DECLARE
  found record;
BEGIN
  FOR found IN
    SELECT DISTINCT format('GRANT %I TO %I', current_setting('roles.jobs'), o.rolname) AS change
    FROM pg_class AS c
    JOIN pg_roles AS o ON o.oid = c.relowner
    WHERE c.relnamespace = 'public'::regnamespace
      AND c.relkind IN ('r', 'p')
      AND NOT o.rolsuper
      AND o.rolname NOT IN (current_setting('roles.migrate'), current_setting('roles.read'))
      AND NOT pg_has_role(current_setting('roles.jobs'), o.oid, 'MEMBER')
    UNION ALL
    SELECT
      format('ALTER %s %s OWNER TO %I', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END,
        c.oid::regclass, w.owner) AS change
    FROM pg_class AS c
    CROSS JOIN LATERAL (
      SELECT
        CASE
          WHEN coalesce((SELECT p.relname FROM pg_inherits AS i JOIN pg_class AS p ON p.oid = i.inhparent
            WHERE i.inhrelid = c.oid), c.relname) IN ('chat_messages', 'chat_request_notifications', 'delivery_trail', 'webhook_logs')
            THEN current_setting('roles.jobs')
          ELSE current_setting('roles.migrate')
        END AS owner
    ) AS w
    WHERE c.relnamespace = 'public'::regnamespace
      AND c.relkind IN ('r', 'p', 'S', 'v')
      AND pg_get_userbyid(c.relowner) <> w.owner
      -- A sequence of a column follows its table.
      AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype IN ('e', 'a', 'i')
        AND d.classid = 'pg_class'::regclass AND (d.deptype = 'e' OR c.relkind = 'S'))
    UNION ALL
    SELECT format('ALTER ROUTINE %s OWNER TO %I', f.oid::regprocedure, current_setting('roles.migrate'))
    FROM pg_proc AS f
    WHERE f.pronamespace = 'public'::regnamespace
      AND pg_get_userbyid(f.proowner) <> current_setting('roles.migrate')
      AND NOT EXISTS (SELECT 1 FROM pg_depend AS d
        WHERE d.classid = 'pg_proc'::regclass AND d.objid = f.oid AND d.deptype = 'e')
  LOOP
    EXECUTE found.change;
  END LOOP;
END $$;

-- Rows of present tables, and of those that later migrations and the jobs process make.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO :"run";
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO :"run";
GRANT SELECT ON ALL TABLES IN SCHEMA public TO :"read";
ALTER DEFAULT PRIVILEGES FOR ROLE :"migrate" IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO :"run";
ALTER DEFAULT PRIVILEGES FOR ROLE :"migrate" IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO :"run";
ALTER DEFAULT PRIVILEGES FOR ROLE :"migrate" IN SCHEMA public GRANT SELECT ON TABLES TO :"read";
ALTER DEFAULT PRIVILEGES FOR ROLE :"jobs" IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO :"run";
ALTER DEFAULT PRIVILEGES FOR ROLE :"jobs" IN SCHEMA public GRANT SELECT ON TABLES TO :"read";

-- What guards refuse anyway, and what no flow does. A new partition locks the tables of its foreign keys.
DO $$
DECLARE
  found record;
BEGIN
  FOR found IN
    SELECT format('REVOKE %s ON %I FROM %I', n.rights, n.relation, current_setting(n.role)) AS change
    FROM (VALUES
      ('roles.run', 'UPDATE, DELETE', 'customer_transactions'),
      ('roles.run', 'UPDATE', 'delivery_trail'),
      ('roles.run', 'UPDATE, DELETE', 'accepted_violations'),
      ('roles.run', 'UPDATE, DELETE', 'operator_audit_log'),
      ('roles.run', 'UPDATE, DELETE', 'session_time_credits'),
      ('roles.run', 'DELETE', 'session_receipts'),
      ('roles.run', 'UPDATE', 'chat_digests'),
      ('roles.run', 'UPDATE, DELETE', 'pricing_tiers_history'),
      ('roles.run', 'UPDATE, DELETE', 'pricing_promotions_history'),
      ('roles.run', 'UPDATE', 'wait_promises'),
      ('roles.run', 'INSERT, UPDATE, DELETE', 'migration'),
      ('roles.run', 'DELETE', 'app_config'),
      ('roles.run', 'DELETE', 'service_clock'),
      ('roles.run', 'DELETE', 'customers'),
      ('roles.run', 'DELETE', 'mitras'),
      ('roles.run', 'DELETE', 'control_center_users'),
      ('roles.run', 'DELETE', 'payment_requests'),
      ('roles.run', 'DELETE', 'pairing_failures'),
      ('roles.run', 'DELETE', 'refunds'),
      ('roles.run', 'DELETE', 'chat_sessions'),
      ('roles.run', 'DELETE', 'session_extensions'),
      -- Hashes of passwords, codes and tokens, and seeds of second factors.
      ('roles.read', 'SELECT', 'auth_sessions'),
      ('roles.read', 'SELECT', 'control_center_users'),
      ('roles.read', 'SELECT', 'idempotency_keys'),
      ('roles.read', 'SELECT', 'operator_sign_in_addresses'),
      ('roles.read', 'SELECT', 'otp_requests'),
      ('roles.read', 'SELECT', 'unknown_operator_logins'),
      ('roles.read', 'SELECT', 'used_identity_tokens')
    ) AS n (role, rights, relation)
    WHERE to_regclass(n.relation) IS NOT NULL
    UNION ALL
    -- The jobs process removes anonymous customers who never used the service.
    SELECT format('GRANT DELETE ON customers TO %I', current_setting('roles.jobs'))
    WHERE to_regclass('customers') IS NOT NULL
    UNION ALL
    -- Of these tables, reports see the columns without credentials.
    SELECT format(
      'GRANT SELECT (%s) ON %s TO %I', string_agg(quote_ident(a.attname), ', '), a.attrelid::regclass,
      current_setting('roles.read')
    )
    FROM pg_attribute AS a
    WHERE a.attrelid IN (
        to_regclass('auth_sessions'), to_regclass('control_center_users'), to_regclass('idempotency_keys'),
        to_regclass('otp_requests')
      )
      AND a.attnum > 0
      AND NOT a.attisdropped
      AND a.attname !~ '^(refresh_token_hash|used_tokens|password_hash|totp_.*|recovery_codes|.*code_hash|fingerprint)$'
    GROUP BY a.attrelid
    UNION ALL
    -- Erasing a customer empties fields of the audit log by this function alone.
    SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I', f.oid::regprocedure, current_setting('roles.run'))
    FROM pg_proc AS f
    WHERE f.pronamespace = 'public'::regnamespace AND f.proname = 'blank_operator_audit_log'
  LOOP
    EXECUTE found.change;
  END LOOP;
END $$;
COMMIT;
