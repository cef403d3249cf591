"""The statements of `sesi grow`: first plans of users and sessions, then the rows that follow from them.

Everything is a function of a row's number and the seed: `u(n, salt)` is a pseudo-random number in [0, 1), `id(at, salt,
n)` a UUIDv7 of that time. The temporary tables (`g_…`) hold values that later statements look up; no statement works
row by row. The data must satisfy `sesi audit`: a paid request is in one place, `seq` has no gaps, no message is outside
the paid time, one mitra has accepted.

tools.bench.grow replaces the words in braces: numbers of rows, the seed, the time that counts as now.
"""

# From a row's number: a number in [0, 1), whether a message is the customer's, a duration, a UUIDv7. The planner
# inlines them.
FUNCTIONS = """
CREATE FUNCTION pg_temp.u(n bigint, salt int) RETURNS float8 LANGUAGE sql IMMUTABLE AS
  $$ SELECT (hashint8extended(n, salt + {seed} * 1000::bigint) & 4294967295)::float8 / 4294967296 $$;
CREATE FUNCTION pg_temp.own(n bigint, seq int) RETURNS bool LANGUAGE sql IMMUTABLE AS $$ SELECT pg_temp.u(n * 512 + seq, 76) < 0.5 $$;
CREATE FUNCTION pg_temp.s(seconds float8) RETURNS interval LANGUAGE sql IMMUTABLE AS $$ SELECT seconds * interval '1 second' $$;
CREATE FUNCTION pg_temp.id(at timestamptz, salt int, n bigint) RETURNS uuid LANGUAGE sql STABLE AS
  $$ SELECT (lpad(to_hex((date_part('epoch', at) * 1000)::bigint), 12, '0') || '7'
    || substr(to_hex(hashint8extended(n, salt + 500 + {seed} * 1000::bigint) & 4095 | 4096), 2) || 'a'
    || substr(to_hex(hashint8extended(n, salt + {seed} * 1000::bigint) & 1152921504606846975 | 1152921504606846976), 2))::uuid $$;
"""

# Two of five past sessions are of new customers, the others of returning ones; live sessions belong to the oldest
# customers. `base` is the session whose payment a session uses: one in fifty was a targeted request without success
# (`fell_back`), and the next session is the fallback with the same payment. There are more sessions by day than by
# night.
MOMENTS = """CREATE TEMP TABLE g_moments ON COMMIT DROP AS
  SELECT a.n, b.base, a.live, b.base <> a.n AS fell_back, a.n % 50 = 10 AND NOT a.live AS second_try,
    NOT a.live AND b.base = a.n AND (a.n - 1) % 5 IN (0, 2) AS is_new,
    CASE WHEN a.live THEN a.n - {past} WHEN (b.base - 1) % 5 IN (0, 2) THEN so_far
      ELSE 1 + floor(pg_temp.u(b.base, 11) * so_far * 0.8)::bigint END AS customer_no,
    CASE WHEN a.live THEN 1 + a.n % ({mitras} / 2) ELSE 1 + floor(power(pg_temp.u(b.base, 12), 1.3) * {mitras})::bigint END AS mitra_no,
    CASE WHEN a.live THEN '{now}'::timestamptz - pg_temp.s(60 + pg_temp.u(a.n, 13) * 540)
      ELSE wave + pg_temp.s(11000 * sin(date_part('epoch', wave) / 86400 * 2 * pi()) - 60 * (b.base - a.n)) END AS at
  FROM (SELECT n, n > {past} AS live FROM generate_series(1, {sessions}::bigint) n) a
  CROSS JOIN LATERAL (SELECT a.n + CASE WHEN a.n % 50 = 9 AND a.n < {past} THEN 1 ELSE 0 END AS base) b
  CROSS JOIN LATERAL (SELECT 2 * ((b.base - 1) / 5) + CASE WHEN (b.base - 1) % 5 < 2 THEN 1 ELSE 2 END AS so_far,
    '{begin}'::timestamptz + (b.base - 1 + pg_temp.u(b.base, 14)) / {past} * ('{now}'::timestamptz - '{begin}' - interval '6 hours') AS wave) c"""

# The outcome of each session; `first_at`: the time of its payment. The discount is for a customer's first session, so
# it starts when there are enough customers that none returns within minutes.
SESSIONS = """CREATE TEMP TABLE g_sessions ON COMMIT DROP AS
  SELECT m.n, m.base, m.live, m.fell_back, m.second_try, m.is_new, m.mitra_no, c.id AS customer_id, t.id AS mitra_id, e.at, e.id,
    a.status, a.targeted, a.mode, a.minutes, a.extension, a.topics, d.cause, d.ended_by, d.price, b.discount, d.extra,
    e.first_at, e.first_at - pg_temp.s(20 + pg_temp.u(m.base, 30) * 160) AS asked_at, f.paired_at, g.expires_at, h.chat_until,
    CASE WHEN f.paired_at IS NOT NULL AND pg_temp.u(m.n, 46) < 0.03 THEN 'sensitive' ELSE 'regular' END AS sensitivity,
    CASE WHEN a.status = 'searching' THEN '{ahead}'::timestamptz ELSE e.at + interval '60 seconds' END AS round_ends_at,
    CASE WHEN f.paired_at IS NULL THEN 0
      ELSE round(-ln(1 - pg_temp.u(m.base, 31)) * {messages} / greatest(1, count(f.paired_at) OVER ()))::int END AS messages,
    CASE WHEN d.cause = 'targeted_mitra_offline' THEN 0 WHEN a.targeted THEN 1
      ELSE least({mitras}, 1 + floor(pg_temp.u(m.base, 32) * greatest(1, 2.0 * ({notifications} - count(*) FILTER (WHERE a.targeted) OVER ())
        / greatest(1, count(*) FILTER (WHERE NOT a.targeted) OVER ()) - 1))::int) END AS asked
  FROM g_moments m JOIN g_customers c ON c.no = m.customer_no JOIN g_mitras t ON t.no = m.mitra_no
  CROSS JOIN LATERAL (SELECT
    CASE WHEN m.live THEN CASE WHEN m.n % 20 = 0 THEN 'searching' WHEN m.n % 20 IN (1, 2) THEN 'expired'
        WHEN m.n % 20 IN (3, 4) THEN 'closing' ELSE 'active' END
      WHEN m.fell_back THEN 'failed' WHEN m.second_try OR pg_temp.u(m.n, 39) < 0.88 THEN 'completed'
      WHEN pg_temp.u(m.n, 39) < 0.95 THEN 'failed' ELSE 'cancelled' END AS status,
    m.fell_back OR NOT (m.is_new OR m.second_try OR m.live) AND pg_temp.u(m.n, 40) < 0.1 AS targeted,
    CASE WHEN pg_temp.u(m.base, 41) < 0.9 THEN 'chat' ELSE 'call' END AS mode,
    CASE WHEN m.live THEN 60 WHEN pg_temp.u(m.base, 42) < 0.6 THEN 12 WHEN pg_temp.u(m.base, 42) < 0.9 THEN 30 ELSE 60 END AS minutes,
    CASE WHEN pg_temp.u(m.n, 43) < 0.06 THEN 'approved' WHEN pg_temp.u(m.n, 43) < 0.08 THEN 'auto_approved'
      WHEN pg_temp.u(m.n, 43) < 0.095 THEN 'rejected' WHEN pg_temp.u(m.n, 43) < 0.1 THEN 'safeguard_tripped' END AS extension,
    CASE WHEN pg_temp.u(m.base, 44) < 0.4 THEN ARRAY[('{keluarga,pekerjaan,hubungan,kuliah,kesehatan}'::text[])
      [1 + floor(pg_temp.u(m.base, 45) * 5)::int]] END AS topics) a
  CROSS JOIN LATERAL (SELECT m.is_new AND m.n > 200 AND a.mode = 'chat' AND a.minutes = 12 AND pg_temp.u(m.n, 37) < 0.8 AS discount) b
  CROSS JOIN LATERAL (SELECT
    CASE WHEN a.status = 'cancelled' THEN 'customer_cancelled' WHEN a.status <> 'failed' THEN NULL
      WHEN a.targeted THEN CASE WHEN pg_temp.u(m.n, 35) < 0.5 THEN 'targeted_mitra_rejected'
        WHEN pg_temp.u(m.n, 35) < 0.8 THEN 'targeted_mitra_timeout' ELSE 'targeted_mitra_offline' END
      WHEN pg_temp.u(m.n, 35) < 0.7 THEN 'no_mitra_available' ELSE 'all_mitras_rejected' END AS cause,
    CASE WHEN a.status = 'closing' OR a.status = 'completed' AND pg_temp.u(m.n, 36) < 0.2 THEN 'customer'
      WHEN a.status <> 'completed' THEN NULL WHEN pg_temp.u(m.n, 36) < 0.25 THEN 'mitra' ELSE 'timer' END AS ended_by,
    CASE WHEN b.discount THEN 2000 WHEN a.mode = 'chat' THEN CASE a.minutes WHEN 12 THEN 12000 WHEN 30 THEN 27000 ELSE 48000 END
      ELSE CASE a.minutes WHEN 12 THEN 18000 WHEN 30 THEN 40000 ELSE 72000 END END AS price,
    CASE WHEN a.status = 'completed' AND a.extension IN ('approved', 'auto_approved') THEN 12 ELSE 0 END AS extra) d
  CROSS JOIN LATERAL (SELECT began.at, pg_temp.id(began.at, 3, {sessions_base} + m.n) AS id,
      began.at - CASE WHEN m.second_try THEN interval '60 seconds' ELSE interval '0' END AS first_at
    FROM (SELECT CASE WHEN a.status = 'expired' THEN '{now}'::timestamptz - pg_temp.s(a.minutes * 60 + 60) ELSE m.at END AS at) began) e
  CROSS JOIN LATERAL (SELECT CASE WHEN a.status IN ('active', 'expired', 'closing', 'completed')
    THEN e.at + pg_temp.s(2 + pg_temp.u(m.n, 34) * 20) END AS paired_at) f
  CROSS JOIN LATERAL (SELECT f.paired_at + (a.minutes + d.extra) * interval '1 minute' AS expires_at) g
  CROSS JOIN LATERAL (SELECT CASE WHEN a.status = 'closing' THEN '{now}'::timestamptz - interval '20 seconds'
    WHEN d.ended_by IN ('customer', 'mitra') THEN f.paired_at + (g.expires_at - f.paired_at) * (0.4 + pg_temp.u(m.n, 33) * 0.55)
    ELSE least(g.expires_at, '{now}'::timestamptz) END AS chat_until) h"""

# Every payment request: of sessions, of extensions, unpaid ones and those paid too late.
PAYMENTS = """CREATE TEMP TABLE g_payments ON COMMIT DROP AS
  SELECT base AS no, pg_temp.id(asked_at, 4, {sessions_base} + base) AS id, customer_id, price AS amount, minutes, discount,
    NULL::uuid AS extends_id, mode, CASE WHEN status = 'searching' THEN 'confirmed' WHEN cause IS NULL THEN 'consumed'
      ELSE 'failed_pairing' END AS status,
    CASE WHEN targeted THEN mitra_id END AS target_id, topics, asked_at AS at, first_at AS confirmed_at, paired_at AS consumed_at, id AS session_id
  FROM g_sessions WHERE NOT fell_back
  UNION ALL
  SELECT base, pg_temp.id(chat_until - interval '90 seconds', 5, {sessions_base} + n), customer_id, CASE mode WHEN 'chat' THEN 12000 ELSE 18000 END, 12, false, id, mode,
    CASE WHEN status = 'expired' THEN 'confirmed' WHEN extra > 0 THEN 'consumed' ELSE 'failed_pairing' END, NULL, NULL,
    chat_until - interval '90 seconds', chat_until - interval '70 seconds', CASE WHEN extra > 0 THEN chat_until - interval '50 seconds' END, id
  FROM g_sessions WHERE extension IS NOT NULL AND status IN ('completed', 'expired')
  UNION ALL
  SELECT -e.no, pg_temp.id(e.at, 6, {sessions_base} + e.no), c.id, 12000, 12, false, NULL, 'chat', e.status, NULL, NULL, e.at,
    CASE WHEN e.status = 'failed_pairing' THEN e.at + interval '1 hour' END, NULL, NULL
  FROM (SELECT no, 1 + floor(pg_temp.u(no, 50) * {customers})::bigint AS customer_no,
      '{begin}'::timestamptz + pg_temp.u(no, 51) * ('{now}'::timestamptz - '{begin}' - interval '3 hours') AS at,
      CASE WHEN pg_temp.u(no, 52) < 0.4 THEN 'abandoned' WHEN pg_temp.u(no, 52) < 0.97 THEN 'expired' ELSE 'failed_pairing' END AS status
    FROM generate_series(1, {sessions}::bigint * 3 / 10) no
    UNION ALL
    SELECT {sessions}::bigint + no, {live} + no, '{now}'::timestamptz - pg_temp.s(pg_temp.u(no, 53) * 600), 'pending'
    FROM generate_series(1, {live}::bigint) no) e
  JOIN g_customers c ON c.no = e.customer_no"""

PLANS = (
    (
        "mitras to be",
        """CREATE TEMP TABLE g_mitras ON COMMIT DROP AS
           SELECT no, at, pg_temp.id(at, 1, {mitras_base} + no) AS id, no <= {mitras} / 2 AS online
           FROM (SELECT no, '{begin}'::timestamptz - pg_temp.u(no, 10) * interval '30 days' AS at
             FROM generate_series(1, {mitras}::bigint) no) x""",
    ),
    ("moments of the sessions", MOMENTS),
    (
        "customers to be",
        """CREATE TEMP TABLE g_customers ON COMMIT DROP AS
           SELECT x.*, pg_temp.id(at, 2, {customers_base} + no) AS id, pg_temp.u(no, 20) < 0.3 AS has_phone,
             pg_temp.u(no, 20) BETWEEN 0.3 AND 0.4 AS has_identity, no % 20 = 7 AND pg_temp.u(no - 1, 20) < 0.3 AND pg_temp.u(no, 20) > 0.4 AS has_joined
           FROM (SELECT customer_no AS no, at - pg_temp.s(120 + power(pg_temp.u(n, 21), 4) * 864000) AS at
             FROM g_moments WHERE is_new) x""",
    ),
    ("customers by number", "CREATE UNIQUE INDEX g_customers_no ON g_customers (no)"),
    ("known customers", "ANALYZE g_customers"),
    ("known mitras", "ANALYZE g_mitras"),
    ("sessions to be", SESSIONS),
    ("sessions by number", "CREATE UNIQUE INDEX g_sessions_n ON g_sessions (n)"),
    ("known sessions", "ANALYZE g_sessions"),
    ("payments to be", PAYMENTS),
    ("payments by number", "CREATE INDEX g_payments_no ON g_payments (no) WHERE extends_id IS NULL"),
    ("known payments", "ANALYZE g_payments"),
)

NAMES = "('{Dewi,Eka,Putri,Budi,Agus,Sari,Rina,Wati,Hadi,Yuni,Rizki,Fitri,Dian,Andi,Maya,Indra}'::text[])[1 + # % 16]"
WORDS = """('{"Halo Kak, apa kabar hari ini?","Aku merasa lelah sekali minggu ini, banyak yang harus dikerjakan.","Aku mengerti, itu pasti tidak mudah.",
  "Boleh ceritakan lebih banyak?","Iya.","Tadi pagi aku bertengkar lagi dengan kakakku, dan sampai sekarang kami belum bicara.","Terima kasih sudah mendengarkan.",
  "Apa yang biasanya membuatmu lebih tenang?","Mungkin jalan kaki sebentar, atau mendengarkan musik sebelum tidur.","Coba tarik napas pelan-pelan dulu.",
  "Aku takut mengecewakan orang tuaku.","Wajar kalau kamu merasa begitu; pelan-pelan saja."}'::text[])[1 + # % 12]"""

ROWS = (
    (
        "mitras",
        f"""INSERT INTO mitras (id, phone, display_name, is_active, created_at)
           SELECT id, '+6290' || lpad(({{mitras_base}} + no)::text, 9, '0'), {NAMES.replace("#", "no")}, online OR pg_temp.u(no, 60) < 0.9, at FROM g_mitras""",
    ),
    (
        "mitra_online_status",
        """INSERT INTO mitra_online_status (id, mitra_id, is_online, last_online_at, last_offline_at, last_heartbeat_at, updated_at)
           SELECT pg_temp.id(at, 7, {mitras_base} + no), id, online, '{now}'::timestamptz - interval '3 hours', '{now}'::timestamptz - interval '9 hours',
             '{now}'::timestamptz - pg_temp.s(pg_temp.u(no, 61) * 30), '{now}' FROM g_mitras""",
    ),
    (
        "mitra_online_logs",
        """INSERT INTO mitra_online_logs (id, mitra_id, status, "timestamp")
           SELECT pg_temp.id(l.at, 8, ({mitras_base} + m.no) * 1000 + 2 * day + l.turn), m.id, l.status, l.at FROM g_mitras m
           CROSS JOIN generate_series(0, {last_day}) day
           CROSS JOIN LATERAL (SELECT '{begin}'::timestamptz + day * interval '1 day' + pg_temp.u(m.no * 1000 + day, 62) * interval '9 hours' AS on_at) b
           CROSS JOIN LATERAL (VALUES (0, 'online', on_at), (1, 'offline', on_at + (4 + pg_temp.u(m.no * 1000 + day, 63) * 8) * interval '1 hour'))
             l(turn, status, at)
           WHERE pg_temp.u(m.no * 1000 + day, 64) < 0.7
           UNION ALL SELECT pg_temp.id('{now}'::timestamptz - interval '3 hours', 9, {mitras_base} + no), id, 'online', '{now}'::timestamptz - interval '3 hours'
           FROM g_mitras WHERE online""",
    ),
    (
        "customers",
        f"""INSERT INTO customers (id, phone, display_name, is_anonymous, identity_a_sub, email, account_belongs_to, joined_real_at, usp_seen, created_at)
           SELECT c.id, CASE WHEN c.has_phone THEN '+6291' || lpad(({{customers_base}} + c.no)::text, 9, '0') END, {NAMES.replace("#", "c.no")},
             NOT (c.has_phone OR c.has_identity), CASE WHEN c.has_identity THEN 'grown-' || c.id END,
             CASE WHEN c.has_identity THEN 'grown-' || c.no || '@example.test' END, a.id, CASE WHEN a.id IS NOT NULL THEN c.at + interval '1 hour' END, pg_temp.u(c.no, 65) < 0.8, c.at
           FROM g_customers c LEFT JOIN g_customers a ON a.no = c.no - 1 AND c.has_joined""",
    ),
    (
        "auth_sessions",
        """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, previous_token_hash, rotated_at, device_info, push_token, push_token_at,
             created_at, last_used_at, expires_at, revoked_at, revoked_real_at)
           SELECT id, kind, user_id, rtrim(encode(sha256(convert_to(id::text, 'UTF8')), 'base64'), '='),
             CASE WHEN place % 3 > 0 THEN rtrim(encode(sha256(convert_to('before ' || id, 'UTF8')), 'base64'), '=') END,
             CASE WHEN place % 3 > 0 THEN used END, '{"platform": "android", "app_version": "3.2.1"}'::jsonb,
             CASE WHEN NOT gone AND pg_temp.u(place, 66) < 0.7 THEN 'grown-' || id END, CASE WHEN NOT gone AND pg_temp.u(place, 66) < 0.7 THEN used END,
             at, used, used + interval '30 days', CASE WHEN gone THEN used END, CASE WHEN gone THEN used END
           FROM (SELECT d.*, pg_temp.id(at, 12, {customers_base} * 4 + place) AS id, has_joined OR pg_temp.u(place, 67) < 0.15 AND NOT stays AS gone,
               at + power(CASE WHEN stays THEN 1 ELSE pg_temp.u(place, 68) END, 3) * ('{now}'::timestamptz - at) AS used
             FROM (SELECT 'customer' AS kind, id AS user_id, at, has_joined, no * 4 AS place, false AS stays FROM g_customers
               UNION ALL SELECT 'customer', id, at + interval '5 minutes', has_joined, no * 4 + 1, false FROM g_customers WHERE pg_temp.u(no, 69) < 0.25
               UNION ALL SELECT 'mitra', id, at, false, no * 4 + 2, false FROM g_mitras
               UNION ALL SELECT 'mitra', id, at + interval '20 days', false, no * 4 + 3, online FROM g_mitras) d) e""",
    ),
    (
        "otp_requests",
        """INSERT INTO otp_requests (id, phone, ip_address, user_type, provider_reference, channel, attempts, used_at, created_at, expires_at)
           SELECT pg_temp.id(at, 13, {customers_base} + no), '+6291' || lpad(({customers_base} + no)::text, 9, '0'), '10.' || no % 250 || '.' || no / 250 % 250 || '.9',
             'customer', 'grown-' || no, 'sms', 1, at + interval '20 seconds', at, at + interval '5 minutes' FROM g_customers WHERE has_phone""",
    ),
    (
        "payment_requests",
        """INSERT INTO payment_requests (id, customer_id, amount, duration_minutes, is_first_session_discount, is_extension, extends_session_id, mode, status,
             targeted_mitra_id, topics, created_at, confirmed_at, consumed_at, expires_at, gateway_invoice_id, gateway_invoice_url)
           SELECT id, customer_id, amount, minutes, discount, extends_id IS NOT NULL, extends_id, mode, status, target_id, topics, at, confirmed_at, consumed_at,
             CASE WHEN status = 'pending' THEN '{ahead}'::timestamptz ELSE at + interval '20 minutes' END, 'inv-' || id, 'https://pay.example.test/' || id FROM g_payments""",
    ),
    (
        "chat_sessions",
        """INSERT INTO chat_sessions (id, customer_id, mitra_id, payment_request_id, mode, status, created_at, paired_at, ended_at, ended_by, duration_minutes,
             price, is_first_session_discount, expires_at, extended_minutes, topic_sensitivity, topics, targeted_mitra_id, round_number, round_ends_at,
             search_ends_at, warn_at, grace_ends_at, last_seq, customer_delivered_seq, customer_read_seq, mitra_delivered_seq, mitra_read_seq,
             customer_delivered_at, customer_read_at, mitra_delivered_at, mitra_read_at, customer_sent_seq, mitra_sent_seq)
           SELECT s.id, s.customer_id, CASE WHEN s.paired_at IS NOT NULL THEN s.mitra_id END, p.id, s.mode, s.status, s.at, s.paired_at,
             CASE WHEN s.status = 'completed' THEN s.chat_until + interval '2 minutes' WHEN s.status = 'closing' THEN s.chat_until
               WHEN s.paired_at IS NULL AND s.status <> 'searching' THEN s.at + interval '50 seconds' END, s.ended_by, s.minutes, s.price,
             s.discount, s.expires_at, s.extra, s.sensitivity, s.topics, CASE WHEN s.targeted THEN s.mitra_id END, CASE WHEN s.asked = 0 THEN 0 ELSE 1 END,
             s.round_ends_at, s.round_ends_at + interval '4 minutes',
             CASE WHEN s.status = 'active' THEN s.expires_at - interval '3 minutes' END,
             CASE WHEN s.status IN ('expired', 'closing') THEN '{ahead}'::timestamptz END,
             s.messages, s.messages, greatest(0, s.messages - left_c), s.messages, greatest(0, s.messages - left_m),
             CASE WHEN s.messages > 0 THEN s.chat_until END, CASE WHEN s.messages > left_c THEN s.chat_until END,
             CASE WHEN s.messages > 0 THEN s.chat_until END, CASE WHEN s.messages > left_m THEN s.chat_until END,
             coalesce((SELECT seq FROM (SELECT generate_series(s.messages, 1, -1) AS seq) x WHERE pg_temp.own(s.n, seq) LIMIT 1), 0),
             coalesce((SELECT seq FROM (SELECT generate_series(s.messages, 1, -1) AS seq) x WHERE NOT pg_temp.own(s.n, seq) LIMIT 1), 0)
           FROM g_sessions s JOIN g_payments p ON p.no = s.base AND p.extends_id IS NULL
           CROSS JOIN LATERAL (SELECT CASE WHEN pg_temp.u(s.n, 71) < 0.05 THEN 3 ELSE 0 END AS left_c,
             CASE WHEN pg_temp.u(s.n, 72) < 0.02 THEN 2 ELSE 0 END AS left_m) l ORDER BY s.n""",
    ),
    (
        "session_extensions",
        """INSERT INTO session_extensions (id, session_id, requested_duration_minutes, requested_price, status, requested_at, answer_by, responded_at, payment_request_id)
           SELECT pg_temp.id(p.confirmed_at, 14, {sessions_base} + s.n), s.id, 12, p.amount, CASE WHEN s.status = 'expired' THEN 'pending' ELSE s.extension END,
             p.confirmed_at, CASE WHEN s.status = 'expired' THEN '{ahead}'::timestamptz ELSE p.confirmed_at + interval '60 seconds' END, CASE WHEN s.status <> 'expired' THEN p.confirmed_at + interval '20 seconds' END, p.id
           FROM g_payments p JOIN g_sessions s ON s.n = p.no WHERE p.extends_id IS NOT NULL""",
    ),
    (
        "customer_transactions",
        """INSERT INTO customer_transactions (id, customer_id, session_id, payment_request_id, type, amount, created_at)
           SELECT pg_temp.id(consumed_at, CASE WHEN extends_id IS NULL THEN 15 ELSE 16 END, {sessions_base} + no), customer_id, session_id, id,
             CASE WHEN extends_id IS NULL THEN 'session' ELSE 'extension' END, amount, consumed_at FROM g_payments WHERE status = 'consumed' ORDER BY consumed_at""",
    ),
    (
        "operators",
        """WITH desk AS (INSERT INTO roles (id, name, permissions, created_at) VALUES (pg_temp.id('{begin}', 17, 1), 'grown desk', '{"failed_pairings": "write"}', '{begin}')
             ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id)
           INSERT INTO control_center_users (id, email, display_name, role_id, created_at)
           SELECT pg_temp.id('{begin}', 18, no), 'grown-' || no || '@example.test', 'Meja ' || no, desk.id, '{begin}' FROM desk, generate_series(1, 3) no
           ON CONFLICT (email) DO NOTHING""",
    ),
    (
        "pairing_failures",
        """INSERT INTO pairing_failures (id, payment_request_id, customer_id, targeted_mitra_id, cause_tag, amount, operator_action, actioned_by, actioned_at,
             superseded_at, created_at)
           SELECT pg_temp.id(f.at, 19, f.place), f.payment_id, f.customer_id, f.target_id, f.cause, f.amount, w.action, CASE WHEN w.action IS NOT NULL THEN o.id END,
             CASE WHEN w.action IS NOT NULL THEN f.at + interval '5 hours' END, f.again_at, f.at
           FROM (SELECT {sessions_base} * 4 + 4 * s.n AS place, p.id AS payment_id, s.customer_id, CASE WHEN s.targeted THEN s.mitra_id END AS target_id, s.cause,
               s.price AS amount, CASE WHEN s.fell_back THEN s.at + interval '60 seconds' END AS again_at, s.at + interval '50 seconds' AS at
             FROM g_sessions s JOIN g_payments p ON p.no = s.base AND p.extends_id IS NULL WHERE s.cause IS NOT NULL
             UNION ALL
             SELECT {sessions_base} * 4 + 4 * abs(p.no) + CASE WHEN p.no < 0 THEN 1 ELSE 2 END, p.id, p.customer_id, NULL,
               CASE WHEN p.no < 0 THEN 'payment_session_expired' WHEN s.extension = 'rejected' THEN 'extension_rejected' ELSE 'extension_safeguard_tripped' END,
               p.amount, NULL, p.confirmed_at + CASE WHEN p.no < 0 THEN interval '0' ELSE interval '20 seconds' END
             FROM g_payments p LEFT JOIN g_sessions s ON s.n = p.no
             WHERE p.status = 'failed_pairing' AND (p.no < 0 OR p.extends_id IS NOT NULL)) f
           CROSS JOIN LATERAL (SELECT CASE WHEN f.again_at IS NULL AND f.at < '{now}'::timestamptz - interval '2 days' AND pg_temp.u(f.place, 73) < 0.99
             THEN ('{refunded,credited,no_action}'::text[])[1 + floor(pg_temp.u(f.place, 74) * 3)::int] END AS action) w
           JOIN control_center_users o ON o.email = 'grown-' || (1 + f.place % 3) || '@example.test' ORDER BY f.at""",
    ),
    (
        "operator_audit_log",
        """INSERT INTO operator_audit_log (id, operator_id, action, object_type, object_id, before, after, created_at)
           SELECT pg_temp.id(f.actioned_at, 20, row_number() OVER ()), f.actioned_by, 'failed_pairing.actioned', 'pairing_failure', f.id,
             '{"operator_action": null}'::jsonb, jsonb_build_object('operator_action', f.operator_action), f.actioned_at
           FROM pairing_failures f JOIN g_customers c ON c.id = f.customer_id WHERE f.operator_action IS NOT NULL ORDER BY f.actioned_at""",
    ),
    (
        "chat_request_notifications",
        """INSERT INTO chat_request_notifications (id, session_id, mitra_id, round_number, notified_at, answer_by, response, responded_at, active_session_count)
           SELECT pg_temp.id(a.at, 21, a.place), a.session_id, m.id, 1, a.at, a.round_ends_at, a.response,
             CASE WHEN a.response IS NOT NULL THEN coalesce(a.paired_at, a.at + interval '45 seconds') END, a.place % 3
           FROM (SELECT s.id AS session_id, s.at, s.round_ends_at, s.paired_at, ({sessions_base} + s.n) * 64 + j AS place,
               1 + (s.mitra_no - 1 + j * (1 + s.n % 7)) % {mitras} AS mitra_no,
               CASE WHEN s.status = 'searching' THEN NULL WHEN s.status = 'cancelled' THEN 'CANCELLED'
                 WHEN s.paired_at IS NOT NULL AND j = 0 THEN 'ACCEPTED'
                 WHEN s.cause IN ('all_mitras_rejected', 'targeted_mitra_rejected') OR pg_temp.u(s.n * 64 + j, 75) < 0.15 THEN 'REJECTED'
                 WHEN s.paired_at IS NULL OR pg_temp.u(s.n * 64 + j, 75) < 0.3 THEN 'IGNORED' ELSE 'MISSED' END AS response
             FROM g_sessions s CROSS JOIN LATERAL generate_series(0, s.asked - 1) j) a
           JOIN g_mitras m ON m.no = a.mitra_no""",
    ),
    (
        "chat_messages",
        f"""INSERT INTO chat_messages (id, session_id, seq, sender_type, sender_id, client_message_id, content, status, delivered_at, read_at, created_at)
           SELECT pg_temp.id(b.at, 22, b.place), b.id, b.seq, CASE WHEN b.own THEN 'customer' ELSE 'mitra' END,
             CASE WHEN b.own THEN b.customer_id ELSE b.mitra_id END, pg_temp.id(b.at, 23, b.place), {WORDS.replace("#", "b.place")},
             CASE WHEN b.seq <= b.read_seq THEN 'read' ELSE 'delivered' END, b.at + interval '1 second',
             CASE WHEN b.seq <= b.read_seq THEN b.at + interval '3 seconds' END, b.at
           FROM (SELECT s.id, s.customer_id, s.mitra_id, seq, ({{sessions_base}} + s.n) * 512 + seq AS place, pg_temp.own(s.n, seq) AS own,
               s.paired_at + (s.chat_until - s.paired_at) * (seq::float8 / (s.messages + 1)) AS at,
               CASE WHEN pg_temp.own(s.n, seq) THEN greatest(0, s.messages - CASE WHEN pg_temp.u(s.n, 72) < 0.02 THEN 2 ELSE 0 END)
                 ELSE greatest(0, s.messages - CASE WHEN pg_temp.u(s.n, 71) < 0.05 THEN 3 ELSE 0 END) END AS read_seq
             FROM g_sessions s CROSS JOIN LATERAL generate_series(1, s.messages) seq) b""",
    ),
    (
        "session_closures",
        """INSERT INTO session_closures (id, session_id, user_type, user_id, message, created_at)
           SELECT pg_temp.id(chat_until, 24 + side, {sessions_base} + n), id, CASE side WHEN 0 THEN 'customer' ELSE 'mitra' END,
             CASE side WHEN 0 THEN customer_id ELSE mitra_id END, 'Terima kasih, sampai jumpa lagi.', chat_until + (10 + side * 20) * interval '1 second'
           FROM g_sessions CROSS JOIN generate_series(0, 1) side
           WHERE status = 'completed' AND pg_temp.u(n, 77) < 0.7 - side * 0.3 OR status = 'closing' AND side = 0 ORDER BY n""",
    ),
    (
        "session_sensitivity_log",
        """INSERT INTO session_sensitivity_log (id, session_id, changed_by_mitra_id, from_value, to_value, created_at)
           SELECT pg_temp.id(paired_at, 26, {sessions_base} + n), id, mitra_id, 'regular', 'sensitive', paired_at + (chat_until - paired_at) / 2
           FROM g_sessions WHERE sensitivity = 'sensitive' AND paired_at IS NOT NULL""",
    ),
    (
        # Each side's phone gets the events of the last 90 days over its socket; one in ten is pushed, too.
        "delivery_trail",
        """INSERT INTO delivery_trail (id, event_id, stage, auth_session_id, recipient_id, event, session_id, at)
           SELECT pg_temp.id(e.at, 80 + g.no, e.place), pg_temp.id(e.at, 84, e.place), g.stage, pg_temp.id(e.at, 85, e.n * 2 + e.side), e.recipient_id,
             e.event, e.session_id, e.at + g.no * interval '0.2 seconds'
           FROM (SELECT s.n, side, w.event, s.id AS session_id, CASE side WHEN 0 THEN s.customer_id ELSE s.mitra_id END AS recipient_id, w.at,
               (({sessions_base} + s.n) * 8 + w.no) * 2 + side AS place
             FROM g_sessions s CROSS JOIN generate_series(0, 1) side
             CROSS JOIN LATERAL (VALUES (0, 'session_started', s.paired_at), (1, 'session_warning', s.expires_at - interval '3 minutes'),
               (2, 'session_expired', s.expires_at), (3, 'session_closing', s.chat_until), (4, 'session_completed', s.chat_until + interval '1 minute')) w(no, event, at)
             WHERE s.paired_at IS NOT NULL AND w.at BETWEEN '{now}'::timestamptz - interval '90 days' AND '{now}'::timestamptz) e
           CROSS JOIN LATERAL (VALUES (0, 'sent'), (1, 'acknowledged'), (2, 'pushed')) g(no, stage)
           WHERE g.no < 2 OR pg_temp.u(e.place, 86) < 0.1""",
    ),
    (
        "webhook_logs",
        """INSERT INTO webhook_logs (id, received_at, source_ip, headers, token_valid, external_id, gateway_invoice_id, status, amount, app_tag, raw_body, http_status,
             processing_result)
           SELECT pg_temp.id(c.at, 27, {sessions_base} * 16 + c.place), c.at, '203.0.113.' || c.place % 200, '{"content-type": "application/json", "user-agent": "gateway/2"}',
             true, c.id::text, 'inv-' || c.id, c.said, c.amount::text, 'sesi', convert_to(jsonb_build_object('id', 'inv-' || c.id, 'external_id', c.id, 'status', c.said,
               'amount', c.amount, 'paid_amount', c.amount, 'currency', 'IDR', 'paid_at', c.at, 'payment_method', 'QRIS', 'metadata', jsonb_build_object('app', 'sesi'))::text,
               'UTF8'), 200, c.result
           FROM (SELECT abs(p.no) * 16 + CASE WHEN p.extends_id IS NOT NULL THEN 4 WHEN p.no < 0 THEN 8 ELSE 0 END + w.turn AS place, p.id, p.amount, w.said, w.result, w.at
             FROM g_payments p CROSS JOIN LATERAL (VALUES
               (0, 'PAID', CASE WHEN p.no < 0 THEN 'late_payment_recorded' ELSE 'confirmed' END, p.confirmed_at),
               (1, 'PAID', 'duplicate', CASE WHEN pg_temp.u(p.no, 78) < 0.05 THEN p.confirmed_at + interval '30 seconds' END),
               (2, 'EXPIRED', 'expired', CASE WHEN p.status = 'expired' THEN p.at + interval '20 minutes' END)) w(turn, said, result, at)
             WHERE w.at IS NOT NULL) c ORDER BY c.at""",
    ),
)
