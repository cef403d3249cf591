-- One row of each kind that migrations may change.
BEGIN;
INSERT INTO customers (id, phone, display_name) VALUES ('00000000-0000-7000-8000-000000000001', '+6281200000001', 'Dewi');
INSERT INTO mitras (id, phone, display_name, is_active) VALUES ('00000000-0000-7000-8000-000000000002', '+6281200000002', 'Ayu', true);
INSERT INTO mitra_online_status (id, mitra_id, is_online, last_online_at, last_heartbeat_at)
  VALUES (gen_random_uuid(), '00000000-0000-7000-8000-000000000002', true, now(), now());
INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, previous_token_hash, rotated_at, expires_at)
  VALUES (gen_random_uuid(), 'customer', '00000000-0000-7000-8000-000000000001', 'present', 'previous', now(), now() + interval '1 day');
INSERT INTO otp_requests (id, phone, ip_address, user_type, channel, expires_at)
  VALUES (gen_random_uuid(), '+6281200000001', '127.0.0.1', 'customer', 'sms', now());
INSERT INTO payment_requests (id, customer_id, amount, duration_minutes, status, confirmed_at, consumed_at, expires_at)
  SELECT ('00000000-0000-7000-8000-00000000003' || n)::uuid, '00000000-0000-7000-8000-000000000001', 12000, 12, 'consumed', now(), now(), now()
  FROM generate_series(1, 2) n;
INSERT INTO chat_sessions (id, customer_id, mitra_id, payment_request_id, status, paired_at, expires_at, ended_at, ended_by,
    duration_minutes, price, last_seq, customer_delivered_seq, mitra_delivered_seq, mitra_read_seq)
  SELECT ('00000000-0000-7000-8000-00000000004' || n)::uuid, '00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002',
    ('00000000-0000-7000-8000-00000000003' || n)::uuid, s.status, now(), now() + interval '12 minutes', s.ended_at, s.ended_by, 12, 12000, 2, 2, 2, 1
  FROM (VALUES (1, 'active', NULL::timestamptz, NULL), (2, 'completed', now(), 'timer')) s (n, status, ended_at, ended_by);
INSERT INTO customer_transactions (id, customer_id, session_id, payment_request_id, type, amount)
  SELECT gen_random_uuid(), customer_id, id, payment_request_id, 'session', 12000 FROM chat_sessions;
INSERT INTO chat_messages (id, session_id, seq, sender_type, sender_id, client_message_id, content)
  SELECT gen_random_uuid(), s.id, n, CASE n WHEN 1 THEN 'customer' ELSE 'mitra' END,
    CASE n WHEN 1 THEN s.customer_id ELSE s.mitra_id END, gen_random_uuid(), 'halo'
  FROM chat_sessions s CROSS JOIN generate_series(1, 2) n;
INSERT INTO deliveries (id, recipient_id, recipient_type, event, session_id, payload, created_at)
  VALUES (gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 'customer', 'session_started', '00000000-0000-7000-8000-000000000041', '{}', now());
INSERT INTO idempotency_keys (id, user_id, key, fingerprint, http_status, answer, created_at)
  VALUES (gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 'key', 'fingerprint', 201, '{}', now());
INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, raw_body, http_status, processing_result)
  VALUES ('00000000-0000-7000-8000-000000000061', now(), '127.0.0.1', true, '', 200, 'duplicate');
COMMIT;
