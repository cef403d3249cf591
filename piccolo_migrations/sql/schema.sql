-- Every table of the specification, with what the contract adds. Safe to run again.
CREATE TABLE IF NOT EXISTS service_clock (
  id INTEGER PRIMARY KEY NOT NULL DEFAULT 1,
  anchor TIMESTAMPTZ NOT NULL
);
CREATE TABLE IF NOT EXISTS roles (
  id UUID PRIMARY KEY NOT NULL,
  name VARCHAR(100) UNIQUE NOT NULL,
  permissions JSONB NOT NULL DEFAULT '{}',
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp
);
CREATE TABLE IF NOT EXISTS control_center_users (
  id UUID PRIMARY KEY NOT NULL,
  legacy_uid VARCHAR(255),
  email VARCHAR(255) UNIQUE NOT NULL,
  display_name VARCHAR(100) NOT NULL,
  role_id UUID NOT NULL REFERENCES roles (id) ON DELETE RESTRICT,
  password_hash VARCHAR(60) NOT NULL DEFAULT '',
  failed_login_count INTEGER NOT NULL DEFAULT 0,
  lockout_until TIMESTAMPTZ,
  disabled BOOLEAN NOT NULL DEFAULT false,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT control_center_users_lower_case_email CHECK (email = lower(email))
);
CREATE TABLE IF NOT EXISTS unknown_operator_logins (
  email_hash VARCHAR(64) PRIMARY KEY NOT NULL,
  failed_login_count INTEGER NOT NULL DEFAULT 0,
  lockout_until TIMESTAMPTZ,
  updated_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp
);
CREATE TABLE IF NOT EXISTS operator_audit_log (
  id UUID PRIMARY KEY NOT NULL,
  operator_id UUID NOT NULL REFERENCES control_center_users (id) ON DELETE RESTRICT,
  action VARCHAR(60) NOT NULL,
  object_type VARCHAR(40) NOT NULL,
  object_id VARCHAR(100) NOT NULL,
  before JSONB,
  after JSONB,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp
);
CREATE TABLE IF NOT EXISTS app_config (
  key VARCHAR(100) PRIMARY KEY NOT NULL,
  value JSONB NOT NULL,
  updated_at TIMESTAMPTZ NOT NULL,
  updated_by UUID REFERENCES control_center_users (id) ON DELETE RESTRICT
);
CREATE TABLE IF NOT EXISTS customers (
  id UUID PRIMARY KEY NOT NULL,
  legacy_uid VARCHAR(255) UNIQUE,
  phone VARCHAR(20) UNIQUE,
  display_name VARCHAR(100),
  is_anonymous BOOLEAN NOT NULL DEFAULT true,
  email VARCHAR(255),
  identity_a_sub VARCHAR(255),
  identity_b_sub VARCHAR(255),
  push_token VARCHAR(255),
  account_belongs_to UUID REFERENCES customers (id) ON DELETE SET NULL,
  usp_seen BOOLEAN NOT NULL DEFAULT false,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp
);
CREATE TABLE IF NOT EXISTS mitras (
  id UUID PRIMARY KEY NOT NULL,
  legacy_uid VARCHAR(255) UNIQUE,
  phone VARCHAR(20) UNIQUE NOT NULL,
  display_name VARCHAR(100) NOT NULL,
  is_active BOOLEAN NOT NULL DEFAULT false,
  push_token VARCHAR(255),
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp
);
CREATE TABLE IF NOT EXISTS mitra_online_status (
  id UUID PRIMARY KEY NOT NULL,
  mitra_id UUID UNIQUE NOT NULL REFERENCES mitras (id) ON DELETE RESTRICT,
  is_online BOOLEAN NOT NULL DEFAULT false,
  last_online_at TIMESTAMPTZ,
  last_offline_at TIMESTAMPTZ,
  last_heartbeat_at TIMESTAMPTZ,
  updated_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT mitra_online_status_online_has_heartbeat CHECK (not is_online or last_heartbeat_at is not null)
);
CREATE TABLE IF NOT EXISTS mitra_online_logs (
  id UUID PRIMARY KEY NOT NULL,
  mitra_id UUID NOT NULL REFERENCES mitras (id) ON DELETE RESTRICT,
  status VARCHAR(10) NOT NULL,
  "timestamp" TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT mitra_online_logs_known_status CHECK (status in ('online', 'offline'))
);
CREATE TABLE IF NOT EXISTS auth_sessions (
  id UUID PRIMARY KEY NOT NULL,
  user_type VARCHAR(16) NOT NULL,
  user_id UUID NOT NULL,
  refresh_token_hash VARCHAR(60) UNIQUE NOT NULL,
  previous_token_hash VARCHAR(60),
  rotated_at TIMESTAMPTZ,
  device_info JSONB,
  push_token VARCHAR(255),
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  last_used_at TIMESTAMPTZ,
  expires_at TIMESTAMPTZ NOT NULL,
  revoked_at TIMESTAMPTZ,
  revoked_real_at TIMESTAMPTZ,
  CONSTRAINT auth_sessions_known_user_type CHECK (user_type in ('customer', 'mitra', 'operator'))
);
CREATE TABLE IF NOT EXISTS otp_requests (
  id UUID PRIMARY KEY NOT NULL,
  phone VARCHAR(20) NOT NULL,
  ip_address VARCHAR(45) NOT NULL,
  user_type VARCHAR(16) NOT NULL,
  provider_reference VARCHAR(255),
  channel VARCHAR(16) NOT NULL,
  code_hash VARCHAR(64),
  attempts INTEGER NOT NULL DEFAULT 0,
  delivery_failed BOOLEAN NOT NULL DEFAULT false,
  used_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  expires_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT otp_requests_known_user_type CHECK (user_type in ('customer', 'mitra'))
);
CREATE TABLE IF NOT EXISTS pricing_tiers (
  id UUID PRIMARY KEY NOT NULL,
  mode VARCHAR(10) NOT NULL,
  minutes INTEGER NOT NULL,
  price_idr INTEGER NOT NULL,
  tag VARCHAR(100),
  sort_order INTEGER NOT NULL DEFAULT 0,
  is_active BOOLEAN NOT NULL DEFAULT true,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  updated_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT pricing_tiers_one_price UNIQUE (mode, minutes),
  CONSTRAINT pricing_tiers_known_mode CHECK (mode in ('chat', 'call')),
  CONSTRAINT pricing_tiers_sane CHECK (minutes > 0 and price_idr >= 0)
);
CREATE TABLE IF NOT EXISTS pricing_tiers_history (
  id UUID PRIMARY KEY NOT NULL,
  pricing_tier_id UUID NOT NULL REFERENCES pricing_tiers (id) ON DELETE RESTRICT,
  change_kind VARCHAR(20) NOT NULL,
  changed_by UUID REFERENCES control_center_users (id) ON DELETE RESTRICT,
  changed_at TIMESTAMPTZ NOT NULL,
  before JSONB,
  after JSONB,
  CONSTRAINT pricing_tiers_history_known_kind CHECK (change_kind in ('created', 'updated', 'deleted', 'reactivated', 'reordered'))
);
CREATE TABLE IF NOT EXISTS pricing_promotions (
  id UUID PRIMARY KEY NOT NULL,
  key VARCHAR(50) UNIQUE NOT NULL,
  enabled BOOLEAN NOT NULL DEFAULT false,
  price_idr INTEGER NOT NULL,
  gimmick_price_idr INTEGER NOT NULL,
  duration_minutes INTEGER NOT NULL,
  modes TEXT[] NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  updated_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT pricing_promotions_sane CHECK (price_idr >= 0 and gimmick_price_idr >= 0 and duration_minutes > 0)
);
CREATE TABLE IF NOT EXISTS pricing_promotions_history (
  id UUID PRIMARY KEY NOT NULL,
  pricing_promotion_id UUID NOT NULL REFERENCES pricing_promotions (id) ON DELETE RESTRICT,
  change_kind VARCHAR(20) NOT NULL,
  changed_by UUID REFERENCES control_center_users (id) ON DELETE RESTRICT,
  changed_at TIMESTAMPTZ NOT NULL,
  before JSONB,
  after JSONB,
  CONSTRAINT pricing_promotions_history_known_kind CHECK (change_kind in ('created', 'updated', 'deleted', 'reactivated', 'reordered'))
);
CREATE TABLE IF NOT EXISTS payment_requests (
  id UUID PRIMARY KEY NOT NULL,
  customer_id UUID NOT NULL REFERENCES customers (id) ON DELETE RESTRICT,
  amount INTEGER NOT NULL DEFAULT 0,
  duration_minutes INTEGER NOT NULL,
  is_first_session_discount BOOLEAN NOT NULL DEFAULT false,
  is_extension BOOLEAN NOT NULL DEFAULT false,
  extends_session_id UUID,
  mode TEXT NOT NULL DEFAULT 'chat',
  status TEXT NOT NULL DEFAULT 'pending',
  targeted_mitra_id UUID REFERENCES mitras (id) ON DELETE RESTRICT,
  topics TEXT[],
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  confirmed_at TIMESTAMPTZ,
  consumed_at TIMESTAMPTZ,
  expires_at TIMESTAMPTZ NOT NULL,
  gateway_invoice_id VARCHAR(255) UNIQUE,
  gateway_invoice_url TEXT,
  CONSTRAINT payment_requests_known_mode CHECK (mode in ('chat', 'call')),
  CONSTRAINT payment_requests_known_status CHECK (status in ('pending', 'confirmed', 'consumed', 'failed_pairing', 'abandoned', 'expired')),
  CONSTRAINT payment_requests_sane CHECK (amount >= 0 and duration_minutes > 0),
  CONSTRAINT payment_requests_extension_names_its_session CHECK (is_extension = (extends_session_id is not null)),
  CONSTRAINT payment_requests_paid_has_a_time CHECK ((status in ('confirmed', 'consumed', 'failed_pairing')) = (confirmed_at is not null)),
  CONSTRAINT payment_requests_consumed_has_a_time CHECK ((status = 'consumed') = (consumed_at is not null)),
  CONSTRAINT payment_requests_discount_is_for_sessions CHECK (not (is_extension and is_first_session_discount))
);
CREATE TABLE IF NOT EXISTS chat_sessions (
  id UUID PRIMARY KEY NOT NULL,
  customer_id UUID NOT NULL REFERENCES customers (id) ON DELETE RESTRICT,
  mitra_id UUID REFERENCES mitras (id) ON DELETE RESTRICT,
  payment_request_id UUID REFERENCES payment_requests (id) ON DELETE RESTRICT,
  mode VARCHAR(10) NOT NULL DEFAULT 'chat',
  status VARCHAR(30) NOT NULL DEFAULT 'searching',
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  paired_at TIMESTAMPTZ,
  ended_at TIMESTAMPTZ,
  ended_by VARCHAR(20),
  duration_minutes INTEGER,
  price INTEGER NOT NULL DEFAULT 0,
  is_first_session_discount BOOLEAN NOT NULL DEFAULT false,
  expires_at TIMESTAMPTZ,
  extended_minutes INTEGER NOT NULL DEFAULT 0,
  topic_sensitivity VARCHAR(16) NOT NULL DEFAULT 'regular',
  topics TEXT[],
  targeted_mitra_id UUID REFERENCES mitras (id) ON DELETE RESTRICT,
  round_number INTEGER NOT NULL DEFAULT 0,
  round_ends_at TIMESTAMPTZ,
  search_ends_at TIMESTAMPTZ,
  warn_at TIMESTAMPTZ,
  grace_ends_at TIMESTAMPTZ,
  last_seq INTEGER NOT NULL DEFAULT 0,
  customer_delivered_seq INTEGER NOT NULL DEFAULT 0,
  customer_read_seq INTEGER NOT NULL DEFAULT 0,
  mitra_delivered_seq INTEGER NOT NULL DEFAULT 0,
  mitra_read_seq INTEGER NOT NULL DEFAULT 0,
  customer_delivered_at TIMESTAMPTZ,
  customer_read_at TIMESTAMPTZ,
  mitra_delivered_at TIMESTAMPTZ,
  mitra_read_at TIMESTAMPTZ,
  CONSTRAINT chat_sessions_known_mode CHECK (mode in ('chat', 'call')),
  CONSTRAINT chat_sessions_known_status CHECK (status in ('searching', 'active', 'expired', 'closing', 'completed', 'cancelled', 'failed')),
  CONSTRAINT chat_sessions_known_ended_by CHECK (ended_by in ('customer', 'mitra', 'timer')),
  CONSTRAINT chat_sessions_known_sensitivity CHECK (topic_sensitivity in ('regular', 'sensitive')),
  CONSTRAINT chat_sessions_paired_is_whole CHECK ((mitra_id is null) = (paired_at is null)),
  CONSTRAINT chat_sessions_running_is_paired CHECK (status not in ('active', 'expired', 'closing', 'completed') or (mitra_id is not null and expires_at is not null)),
  CONSTRAINT chat_sessions_unpaired_is_alone CHECK (status not in ('searching', 'cancelled', 'failed') or mitra_id is null),
  CONSTRAINT chat_sessions_searching_has_deadlines CHECK (status <> 'searching' or (round_ends_at is not null and search_ends_at is not null))
);
CREATE TABLE IF NOT EXISTS session_extensions (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  requested_duration_minutes INTEGER NOT NULL,
  requested_price INTEGER NOT NULL,
  status VARCHAR(20) NOT NULL DEFAULT 'pending',
  requested_at TIMESTAMPTZ NOT NULL,
  answer_by TIMESTAMPTZ NOT NULL,
  responded_at TIMESTAMPTZ,
  payment_request_id UUID UNIQUE REFERENCES payment_requests (id) ON DELETE RESTRICT,
  CONSTRAINT session_extensions_known_status CHECK (status in ('pending', 'approved', 'auto_approved', 'rejected', 'safeguard_tripped')),
  CONSTRAINT session_extensions_answered_has_a_time CHECK ((status = 'pending') = (responded_at is null))
);
CREATE TABLE IF NOT EXISTS session_closures (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  user_type VARCHAR(10) NOT NULL,
  user_id UUID NOT NULL,
  message TEXT NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT session_closures_one_a_side UNIQUE (session_id, user_type),
  CONSTRAINT session_closures_known_user_type CHECK (user_type in ('customer', 'mitra'))
);
CREATE TABLE IF NOT EXISTS session_sensitivity_log (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE CASCADE,
  changed_by_mitra_id UUID NOT NULL REFERENCES mitras (id) ON DELETE RESTRICT,
  from_value VARCHAR(16) NOT NULL,
  to_value VARCHAR(16) NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp
);
CREATE TABLE IF NOT EXISTS chat_request_notifications (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  mitra_id UUID NOT NULL REFERENCES mitras (id) ON DELETE RESTRICT,
  round_number INTEGER NOT NULL DEFAULT 1,
  notified_at TIMESTAMPTZ NOT NULL,
  answer_by TIMESTAMPTZ NOT NULL,
  response VARCHAR(20),
  responded_at TIMESTAMPTZ,
  active_session_count INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT chat_request_notifications_known_response CHECK (response in ('ACCEPTED', 'REJECTED', 'MISSED', 'IGNORED', 'CANCELLED')),
  CONSTRAINT chat_request_notifications_answered_has_a_time CHECK ((response is null) = (responded_at is null))
);
CREATE TABLE IF NOT EXISTS chat_messages (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  seq INTEGER NOT NULL,
  sender_type VARCHAR(10) NOT NULL,
  sender_id UUID NOT NULL,
  client_message_id UUID NOT NULL,
  type VARCHAR(20) NOT NULL DEFAULT 'text',
  content TEXT NOT NULL,
  metadata JSONB,
  status VARCHAR(20) NOT NULL DEFAULT 'sent',
  delivered_at TIMESTAMPTZ,
  read_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT chat_messages_gapless UNIQUE (session_id, seq),
  CONSTRAINT chat_messages_once UNIQUE (session_id, sender_id, client_message_id),
  CONSTRAINT chat_messages_known_sender_type CHECK (sender_type in ('customer', 'mitra', 'system')),
  CONSTRAINT chat_messages_known_status CHECK (status in ('sent', 'delivered', 'read')),
  CONSTRAINT chat_messages_sane CHECK (seq > 0)
);
CREATE TABLE IF NOT EXISTS customer_transactions (
  id UUID PRIMARY KEY NOT NULL,
  customer_id UUID NOT NULL REFERENCES customers (id) ON DELETE RESTRICT,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  payment_request_id UUID UNIQUE REFERENCES payment_requests (id) ON DELETE RESTRICT,
  type VARCHAR(20) NOT NULL,
  amount INTEGER NOT NULL DEFAULT 0,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT customer_transactions_known_type CHECK (type in ('session', 'extension'))
);
CREATE TABLE IF NOT EXISTS pairing_failures (
  id UUID PRIMARY KEY NOT NULL,
  payment_request_id UUID NOT NULL REFERENCES payment_requests (id) ON DELETE CASCADE,
  customer_id UUID NOT NULL REFERENCES customers (id) ON DELETE RESTRICT,
  targeted_mitra_id UUID REFERENCES mitras (id) ON DELETE RESTRICT,
  cause_tag VARCHAR(40) NOT NULL,
  amount INTEGER NOT NULL,
  operator_action VARCHAR(20),
  actioned_by UUID REFERENCES control_center_users (id) ON DELETE RESTRICT,
  actioned_at TIMESTAMPTZ,
  superseded_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT pairing_failures_known_cause CHECK (cause_tag in ('no_mitra_available', 'all_mitras_rejected', 'targeted_mitra_offline', 'targeted_mitra_rejected', 'targeted_mitra_timeout', 'payment_session_expired', 'customer_cancelled', 'extension_rejected', 'extension_safeguard_tripped')),
  CONSTRAINT pairing_failures_known_action CHECK (operator_action in ('refunded', 'credited', 'no_action')),
  CONSTRAINT pairing_failures_action_is_whole CHECK ((operator_action is null) = (actioned_by is null) and (operator_action is null) = (actioned_at is null)),
  CONSTRAINT pairing_failures_acted_stays CHECK (operator_action is null or superseded_at is null)
);
CREATE TABLE IF NOT EXISTS webhook_logs (
  id UUID PRIMARY KEY NOT NULL,
  received_at TIMESTAMPTZ NOT NULL,
  source_ip VARCHAR(45) NOT NULL,
  headers JSONB NOT NULL DEFAULT '{}',
  token_valid BOOLEAN NOT NULL,
  external_id TEXT,
  gateway_invoice_id TEXT,
  status TEXT,
  amount TEXT,
  app_tag TEXT,
  raw_body BYTEA NOT NULL,
  truncated BOOLEAN NOT NULL DEFAULT false,
  http_status INTEGER,
  processing_result VARCHAR(60),
  processing_error TEXT,
  replay_of UUID
);
CREATE TABLE IF NOT EXISTS deliveries (
  id UUID PRIMARY KEY NOT NULL,
  recipient_id UUID NOT NULL,
  recipient_type VARCHAR(10) NOT NULL,
  event VARCHAR(40) NOT NULL,
  session_id UUID,
  payload TEXT NOT NULL,
  created_at TIMESTAMPTZ NOT NULL
);
CREATE TABLE IF NOT EXISTS idempotency_keys (
  id UUID PRIMARY KEY NOT NULL,
  user_id UUID NOT NULL,
  key VARCHAR(255) NOT NULL,
  fingerprint VARCHAR(64) NOT NULL,
  http_status INTEGER,
  answer TEXT,
  created_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT idempotency_keys_one_answer UNIQUE (user_id, key)
);
-- The one reference that goes round: an extension's payment request names its session.
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname = 'payment_requests_extends_session_id_fkey') THEN
    ALTER TABLE payment_requests ADD CONSTRAINT payment_requests_extends_session_id_fkey
      FOREIGN KEY (extends_session_id) REFERENCES chat_sessions (id) ON DELETE RESTRICT;
  END IF;
END $$;

-- A message moves only unindexed columns of its session; free space in the page keeps those updates heap-only.
ALTER TABLE chat_sessions SET (fillfactor = 50);
ALTER TABLE chat_messages SET (fillfactor = 80);

CREATE UNIQUE INDEX IF NOT EXISTS customers_identity_a_sub ON customers (identity_a_sub) WHERE identity_a_sub IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS customers_identity_b_sub ON customers (identity_b_sub) WHERE identity_b_sub IS NOT NULL;
CREATE INDEX IF NOT EXISTS customers_account_belongs_to ON customers (account_belongs_to) WHERE account_belongs_to IS NOT NULL;
CREATE INDEX IF NOT EXISTS mitra_online_logs_mitra_id ON mitra_online_logs (mitra_id, "timestamp");
CREATE INDEX IF NOT EXISTS mitra_online_status_heartbeat ON mitra_online_status (last_heartbeat_at) WHERE is_online;
CREATE INDEX IF NOT EXISTS auth_sessions_user ON auth_sessions (user_id);
CREATE INDEX IF NOT EXISTS auth_sessions_revoked ON auth_sessions (revoked_real_at) WHERE revoked_real_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS auth_sessions_previous ON auth_sessions (previous_token_hash) WHERE previous_token_hash IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS auth_sessions_push_token ON auth_sessions (push_token) WHERE push_token IS NOT NULL;
CREATE INDEX IF NOT EXISTS otp_requests_phone ON otp_requests (phone, created_at);
CREATE INDEX IF NOT EXISTS otp_requests_ip ON otp_requests (ip_address, created_at);

CREATE INDEX IF NOT EXISTS payment_requests_customer ON payment_requests (customer_id, created_at);
CREATE INDEX IF NOT EXISTS payment_requests_created ON payment_requests (created_at, id);
CREATE INDEX IF NOT EXISTS payment_requests_pending ON payment_requests (expires_at) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS payment_requests_confirmed ON payment_requests (confirmed_at) WHERE status = 'confirmed';
CREATE UNIQUE INDEX IF NOT EXISTS payment_requests_one_pending ON payment_requests (customer_id)
  WHERE status = 'pending' AND NOT is_extension;
CREATE UNIQUE INDEX IF NOT EXISTS payment_requests_one_confirmed ON payment_requests (customer_id)
  WHERE status = 'confirmed' AND NOT is_extension;
CREATE UNIQUE INDEX IF NOT EXISTS payment_requests_one_extension ON payment_requests (extends_session_id)
  WHERE status IN ('pending', 'confirmed') AND is_extension;
CREATE UNIQUE INDEX IF NOT EXISTS payment_requests_one_discount ON payment_requests (customer_id)
  WHERE status IN ('pending', 'confirmed', 'consumed') AND is_first_session_discount;

CREATE INDEX IF NOT EXISTS chat_sessions_customer ON chat_sessions (customer_id, created_at);
CREATE INDEX IF NOT EXISTS chat_sessions_mitra_status ON chat_sessions (mitra_id, status);
CREATE INDEX IF NOT EXISTS chat_sessions_mitra ON chat_sessions (mitra_id, created_at);
CREATE INDEX IF NOT EXISTS chat_sessions_status ON chat_sessions (status);
CREATE INDEX IF NOT EXISTS chat_sessions_topic_sensitivity ON chat_sessions (topic_sensitivity);
CREATE INDEX IF NOT EXISTS chat_sessions_payment ON chat_sessions (payment_request_id);
CREATE INDEX IF NOT EXISTS chat_sessions_created ON chat_sessions (created_at, id);
CREATE UNIQUE INDEX IF NOT EXISTS chat_sessions_one_for_a_payment ON chat_sessions (payment_request_id)
  WHERE status NOT IN ('failed', 'cancelled');
CREATE UNIQUE INDEX IF NOT EXISTS chat_sessions_one_live ON chat_sessions (customer_id)
  WHERE status IN ('searching', 'active', 'expired');
-- One index for each deadline that the jobs wait for.
CREATE INDEX IF NOT EXISTS chat_sessions_due_expiry ON chat_sessions (expires_at) WHERE status = 'active';
CREATE INDEX IF NOT EXISTS chat_sessions_due_warning ON chat_sessions (warn_at) WHERE warn_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS chat_sessions_due_grace ON chat_sessions (grace_ends_at) WHERE status IN ('expired', 'closing');
CREATE INDEX IF NOT EXISTS chat_sessions_due_round ON chat_sessions (round_ends_at) WHERE status = 'searching';

CREATE INDEX IF NOT EXISTS chat_request_notifications_session ON chat_request_notifications (session_id);
CREATE INDEX IF NOT EXISTS chat_request_notifications_mitra ON chat_request_notifications (mitra_id, notified_at);
CREATE INDEX IF NOT EXISTS chat_request_notifications_newest ON chat_request_notifications (notified_at, id);
CREATE UNIQUE INDEX IF NOT EXISTS chat_request_notifications_one_open ON chat_request_notifications (session_id, mitra_id)
  WHERE response IS NULL;
CREATE INDEX IF NOT EXISTS chat_request_notifications_open ON chat_request_notifications (mitra_id) WHERE response IS NULL;
CREATE UNIQUE INDEX IF NOT EXISTS chat_request_notifications_one_winner ON chat_request_notifications (session_id)
  WHERE response = 'ACCEPTED';

CREATE UNIQUE INDEX IF NOT EXISTS session_extensions_one_pending ON session_extensions (session_id) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS session_extensions_session ON session_extensions (session_id);
CREATE INDEX IF NOT EXISTS session_extensions_due ON session_extensions (answer_by) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS session_sensitivity_log_session ON session_sensitivity_log (session_id);
CREATE INDEX IF NOT EXISTS customer_transactions_customer ON customer_transactions (customer_id);
CREATE INDEX IF NOT EXISTS customer_transactions_session ON customer_transactions (session_id);
CREATE UNIQUE INDEX IF NOT EXISTS pairing_failures_one_live ON pairing_failures (payment_request_id) WHERE superseded_at IS NULL;
CREATE INDEX IF NOT EXISTS pairing_failures_created ON pairing_failures (created_at DESC);
CREATE INDEX IF NOT EXISTS pairing_failures_cause ON pairing_failures (cause_tag);
CREATE INDEX IF NOT EXISTS pairing_failures_open ON pairing_failures (created_at) WHERE operator_action IS NULL;
CREATE INDEX IF NOT EXISTS webhook_logs_received ON webhook_logs (received_at, id);
CREATE INDEX IF NOT EXISTS webhook_logs_external ON webhook_logs (external_id);
CREATE INDEX IF NOT EXISTS webhook_logs_invoice ON webhook_logs (gateway_invoice_id);
CREATE INDEX IF NOT EXISTS webhook_logs_unstamped ON webhook_logs (received_at) WHERE http_status IS NULL;
CREATE INDEX IF NOT EXISTS deliveries_waiting ON deliveries (created_at);
CREATE INDEX IF NOT EXISTS deliveries_recipient ON deliveries (recipient_id);
CREATE INDEX IF NOT EXISTS idempotency_keys_age ON idempotency_keys (created_at);
CREATE INDEX IF NOT EXISTS operator_audit_log_created ON operator_audit_log (created_at, id);
CREATE INDEX IF NOT EXISTS pricing_tiers_history_tier ON pricing_tiers_history (pricing_tier_id, changed_at);
CREATE INDEX IF NOT EXISTS pricing_promotions_history_promotion ON pricing_promotions_history (pricing_promotion_id, changed_at);
