-- sha256 067fcf86aad5beae908da1e86dec27680ed2b47055b3a0a3b66127c6667cb8ce
-- Every table of docs/product.md#resources, and those that the service needs for itself.
--
-- The tables.py of each domain declares the same columns and says what each one means. Every statement may run twice.

-- Operators, their roles and their sign-in.
CREATE TABLE IF NOT EXISTS roles (
  id UUID PRIMARY KEY NOT NULL,
  name VARCHAR(100) UNIQUE NOT NULL,
  permissions JSONB NOT NULL DEFAULT '{}',
  require_totp BOOLEAN NOT NULL DEFAULT false,
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
  password_change_due BOOLEAN NOT NULL DEFAULT false,
  totp_secret TEXT,
  totp_last_step INTEGER,
  recovery_codes JSONB,
  totp_pending TEXT,
  totp_pending_until TIMESTAMPTZ,
  enrolment_code_hash VARCHAR(64),
  enrolment_code_until TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT control_center_users_lower_case_email CHECK (email = lower(email))
);

CREATE TABLE IF NOT EXISTS unknown_operator_logins (
  email_hash VARCHAR(64) PRIMARY KEY NOT NULL,
  failed_login_count INTEGER NOT NULL DEFAULT 0,
  lockout_until TIMESTAMPTZ,
  updated_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp
);

CREATE TABLE IF NOT EXISTS operator_sign_in_addresses (
  id VARCHAR(64) PRIMARY KEY,
  email_hash VARCHAR(64) NOT NULL,
  failed_login_count INTEGER NOT NULL DEFAULT 0,
  lockout_until TIMESTAMPTZ,
  signed_in_at TIMESTAMPTZ,
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- The command line erases and exports without an operator.
CREATE TABLE IF NOT EXISTS operator_audit_log (
  id UUID PRIMARY KEY NOT NULL,
  operator_id UUID REFERENCES control_center_users (id) ON DELETE RESTRICT,
  action VARCHAR(60) NOT NULL,
  object_type VARCHAR(40) NOT NULL,
  object_id VARCHAR(100) NOT NULL,
  before JSONB,
  after JSONB,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp
);

-- Configuration, and the anchor of service time.
CREATE TABLE IF NOT EXISTS app_config (
  key VARCHAR(100) PRIMARY KEY NOT NULL,
  value JSONB NOT NULL,
  updated_at TIMESTAMPTZ NOT NULL,
  updated_by UUID REFERENCES control_center_users (id) ON DELETE RESTRICT
);

CREATE TABLE IF NOT EXISTS service_clock (
  id INTEGER PRIMARY KEY NOT NULL DEFAULT 1,
  anchor TIMESTAMPTZ NOT NULL
);

-- Customers, mitras and their sign-in.
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
  joined_real_at TIMESTAMPTZ,
  usp_seen BOOLEAN NOT NULL DEFAULT false,
  had_first_session BOOLEAN NOT NULL DEFAULT false,
  exported_at TIMESTAMPTZ,
  erased_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  blocked_at TIMESTAMPTZ,
  blocked_until TIMESTAMPTZ,
  block_reason TEXT,
  CONSTRAINT customers_block_is_whole CHECK (
    blocked_at IS NOT NULL OR blocked_until IS NULL AND block_reason IS NULL
  )
);

CREATE TABLE IF NOT EXISTS mitras (
  id UUID PRIMARY KEY NOT NULL,
  legacy_uid VARCHAR(255) UNIQUE,
  phone VARCHAR(20) UNIQUE NOT NULL,
  display_name VARCHAR(100) NOT NULL,
  is_active BOOLEAN NOT NULL DEFAULT false,
  push_token VARCHAR(255),
  erased_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp
);

CREATE TABLE IF NOT EXISTS mitra_online_status (
  id UUID PRIMARY KEY NOT NULL,
  mitra_id UUID UNIQUE NOT NULL REFERENCES mitras (id) ON DELETE RESTRICT,
  is_online BOOLEAN NOT NULL DEFAULT false,
  last_online_at TIMESTAMPTZ,
  last_offline_at TIMESTAMPTZ,
  last_heartbeat_at TIMESTAMPTZ,
  heartbeat_channel VARCHAR(8) NOT NULL DEFAULT 'any',
  checked_at TIMESTAMPTZ,
  check_ends_at TIMESTAMPTZ,
  reachable_at TIMESTAMPTZ,
  updated_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT mitra_online_status_known_channel CHECK (heartbeat_channel IN ('any', 'socket', 'rest')),
  CONSTRAINT mitra_online_status_online_has_heartbeat CHECK (NOT is_online OR last_heartbeat_at IS NOT NULL)
);

CREATE TABLE IF NOT EXISTS mitra_online_logs (
  id UUID PRIMARY KEY NOT NULL,
  mitra_id UUID NOT NULL REFERENCES mitras (id) ON DELETE RESTRICT,
  status VARCHAR(10) NOT NULL,
  "timestamp" TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT mitra_online_logs_known_status CHECK (status IN ('online', 'offline'))
);

CREATE TABLE IF NOT EXISTS auth_sessions (
  id UUID PRIMARY KEY NOT NULL,
  user_type VARCHAR(16) NOT NULL,
  user_id UUID NOT NULL,
  refresh_token_hash VARCHAR(60) UNIQUE NOT NULL,
  previous_token_hash VARCHAR(60),
  rotated_at TIMESTAMPTZ,
  refresh_generation BIGINT,
  used_tokens JSONB,
  device_info JSONB,
  push_token VARCHAR(255),
  push_token_at TIMESTAMPTZ,
  locale VARCHAR(2),
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  last_used_at TIMESTAMPTZ,
  expires_at TIMESTAMPTZ NOT NULL,
  stepped_up_until TIMESTAMPTZ,
  revoked_at TIMESTAMPTZ,
  replaced_by UUID,
  revoked_real_at TIMESTAMPTZ,
  CONSTRAINT auth_sessions_known_user_type CHECK (user_type IN ('customer', 'mitra', 'operator'))
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
  number_refused BOOLEAN NOT NULL DEFAULT false,
  known_phone BOOLEAN NOT NULL DEFAULT false,
  network VARCHAR(45),
  send_due_real_at TIMESTAMPTZ,
  send_attempts INTEGER NOT NULL DEFAULT 0,
  used_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  expires_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT otp_requests_known_user_type CHECK (user_type IN ('customer', 'mitra'))
);

CREATE TABLE IF NOT EXISTS used_identity_tokens (
  id UUID PRIMARY KEY NOT NULL,
  digest VARCHAR(64) NOT NULL UNIQUE,
  auth_session_id UUID NOT NULL,
  used_at TIMESTAMPTZ NOT NULL,
  expires_real_at TIMESTAMPTZ NOT NULL
);

-- Prices and their histories.
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
  CONSTRAINT pricing_tiers_known_mode CHECK (mode IN ('chat', 'call')),
  CONSTRAINT pricing_tiers_sane CHECK (minutes > 0 AND price_idr >= 0)
);

CREATE TABLE IF NOT EXISTS pricing_tiers_history (
  id UUID PRIMARY KEY NOT NULL,
  pricing_tier_id UUID NOT NULL REFERENCES pricing_tiers (id) ON DELETE RESTRICT,
  change_kind VARCHAR(20) NOT NULL,
  changed_by UUID REFERENCES control_center_users (id) ON DELETE RESTRICT,
  changed_at TIMESTAMPTZ NOT NULL,
  before JSONB,
  after JSONB,
  schedule JSONB,
  CONSTRAINT pricing_tiers_history_known_kind CHECK (
    change_kind IN ('created', 'updated', 'deleted', 'reactivated', 'reordered', 'scheduled', 'unscheduled', 'started')
  ),
  CONSTRAINT pricing_tiers_history_says_the_schedule CHECK (
    (schedule IS NOT NULL) = (change_kind IN ('scheduled', 'unscheduled', 'started'))
  )
);

-- Prices at a time (docs/product.md#prices-at-a-time): what operators asked for, until the jobs process sets the price.
CREATE TABLE IF NOT EXISTS pricing_schedules (
  id UUID PRIMARY KEY NOT NULL,
  pricing_tier_id UUID NOT NULL REFERENCES pricing_tiers (id) ON DELETE RESTRICT,
  price_idr INTEGER NOT NULL,
  starts_at TIMESTAMPTZ NOT NULL,
  asked_by UUID NOT NULL REFERENCES control_center_users (id) ON DELETE RESTRICT,
  asked_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT pricing_schedules_sane CHECK (price_idr >= 0)
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
  CONSTRAINT pricing_promotions_sane CHECK (price_idr >= 0 AND gimmick_price_idr >= 0 AND duration_minutes > 0)
);

CREATE TABLE IF NOT EXISTS pricing_promotions_history (
  id UUID PRIMARY KEY NOT NULL,
  pricing_promotion_id UUID NOT NULL REFERENCES pricing_promotions (id) ON DELETE RESTRICT,
  change_kind VARCHAR(20) NOT NULL,
  changed_by UUID REFERENCES control_center_users (id) ON DELETE RESTRICT,
  changed_at TIMESTAMPTZ NOT NULL,
  before JSONB,
  after JSONB,
  CONSTRAINT pricing_promotions_history_known_kind CHECK (
    change_kind IN ('created', 'updated', 'deleted', 'reactivated', 'reordered')
  )
);

-- Payments. `extends_session_id` gets its foreign key below, because sessions refer to payments.
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
  payment_channel VARCHAR(50),
  invoice_made_at TIMESTAMPTZ,
  poll_at TIMESTAMPTZ,
  traceparent VARCHAR(55),
  asked_amount INTEGER,
  CONSTRAINT payment_requests_known_mode CHECK (mode IN ('chat', 'call')),
  CONSTRAINT payment_requests_known_status CHECK (
    status IN ('pending', 'confirmed', 'consumed', 'failed_pairing', 'abandoned', 'expired')
  ),
  CONSTRAINT payment_requests_sane CHECK (amount >= 0 AND duration_minutes > 0),
  CONSTRAINT payment_requests_extension_names_its_session CHECK (is_extension = (extends_session_id IS NOT NULL)),
  CONSTRAINT payment_requests_paid_has_a_time CHECK (
    (status IN ('confirmed', 'consumed', 'failed_pairing')) = (confirmed_at IS NOT NULL)
  ),
  CONSTRAINT payment_requests_consumed_has_a_time CHECK ((status = 'consumed') = (consumed_at IS NOT NULL)),
  CONSTRAINT payment_requests_discount_is_for_sessions CHECK (NOT (is_extension AND is_first_session_discount)),
  CONSTRAINT payment_requests_short_is_less CHECK (asked_amount > amount)
);

CREATE TABLE IF NOT EXISTS invoices_asked (
  id UUID PRIMARY KEY NOT NULL,
  customer_id UUID NOT NULL,
  address VARCHAR(45) NOT NULL,
  has_paid BOOLEAN NOT NULL DEFAULT false,
  asked_at TIMESTAMPTZ NOT NULL
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
  replay_of UUID,
  source VARCHAR(10) NOT NULL DEFAULT 'webhook',
  calls INTEGER NOT NULL DEFAULT 1,
  bytes BIGINT,
  body_sha256 VARCHAR(64),
  CONSTRAINT webhook_logs_known_source CHECK (source IN ('webhook', 'poll'))
) PARTITION BY RANGE (id);

-- Sessions. Each message updates only unindexed columns of its session; free space in the pages keeps those updates
-- heap-only (docs/architecture.md#flow-message). The last two columns say which devices have messages without showing
-- them: pushes leave these out.
CREATE TABLE IF NOT EXISTS chat_sessions (
  id UUID PRIMARY KEY NOT NULL,
  customer_id UUID NOT NULL REFERENCES customers (id) ON DELETE RESTRICT,
  mitra_id UUID REFERENCES mitras (id) ON DELETE RESTRICT,
  payment_request_id UUID REFERENCES payment_requests (id) ON DELETE RESTRICT,
  mode VARCHAR(10) NOT NULL DEFAULT 'chat',
  status VARCHAR(30) NOT NULL DEFAULT 'searching',
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  paired_at TIMESTAMPTZ,
  resumed_at TIMESTAMPTZ,
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
  wave_number INTEGER NOT NULL DEFAULT 0,
  wave_ends_at TIMESTAMPTZ,
  asked_repeat_at TIMESTAMPTZ,
  warn_at TIMESTAMPTZ,
  grace_ends_at TIMESTAMPTZ,
  last_seq INTEGER NOT NULL DEFAULT 0,
  customer_delivered_seq INTEGER NOT NULL DEFAULT 0,
  customer_read_seq INTEGER NOT NULL DEFAULT 0,
  mitra_delivered_seq INTEGER NOT NULL DEFAULT 0,
  mitra_read_seq INTEGER NOT NULL DEFAULT 0,
  customer_sent_seq INTEGER NOT NULL DEFAULT 0,
  mitra_sent_seq INTEGER NOT NULL DEFAULT 0,
  customer_pushed_seq INTEGER NOT NULL DEFAULT 0,
  mitra_pushed_seq INTEGER NOT NULL DEFAULT 0,
  customer_delivered_at TIMESTAMPTZ,
  customer_read_at TIMESTAMPTZ,
  mitra_delivered_at TIMESTAMPTZ,
  mitra_read_at TIMESTAMPTZ,
  blanked_at TIMESTAMPTZ,
  blanked_seq INTEGER,
  traceparent VARCHAR(55),
  customer_unshown JSONB,
  mitra_unshown JSONB,
  CONSTRAINT chat_sessions_known_mode CHECK (mode IN ('chat', 'call')),
  CONSTRAINT chat_sessions_known_status CHECK (
    status IN ('searching', 'active', 'expired', 'closing', 'completed', 'cancelled', 'failed')
  ),
  CONSTRAINT chat_sessions_known_ended_by CHECK (ended_by IN ('customer', 'mitra', 'timer', 'operator')),
  CONSTRAINT chat_sessions_known_sensitivity CHECK (topic_sensitivity IN ('regular', 'sensitive')),
  CONSTRAINT chat_sessions_paired_is_whole CHECK ((mitra_id IS NULL) = (paired_at IS NULL)),
  CONSTRAINT chat_sessions_running_is_paired CHECK (
    status NOT IN ('active', 'expired', 'closing', 'completed') OR (mitra_id IS NOT NULL AND expires_at IS NOT NULL)
  ),
  CONSTRAINT chat_sessions_unpaired_is_alone CHECK (
    status NOT IN ('searching', 'cancelled', 'failed') OR mitra_id IS NULL
  ),
  CONSTRAINT chat_sessions_searching_has_deadlines CHECK (
    status <> 'searching' OR (round_ends_at IS NOT NULL AND search_ends_at IS NOT NULL)
  ),
  CONSTRAINT chat_sessions_blanked_is_completed CHECK (blanked_at IS NULL OR status = 'completed'),
  CONSTRAINT chat_sessions_blanking_has_begun CHECK (blanked_seq IS NULL OR blanked_at IS NOT NULL)
) WITH (fillfactor = 50);

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
  CONSTRAINT session_extensions_known_status CHECK (
    status IN ('pending', 'approved', 'auto_approved', 'rejected', 'safeguard_tripped')
  ),
  CONSTRAINT session_extensions_answered_has_a_time CHECK ((status = 'pending') = (responded_at IS NULL))
);

CREATE TABLE IF NOT EXISTS session_closures (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  user_type VARCHAR(10) NOT NULL,
  user_id UUID NOT NULL,
  message TEXT NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT session_closures_one_a_side UNIQUE (session_id, user_type),
  CONSTRAINT session_closures_known_user_type CHECK (user_type IN ('customer', 'mitra'))
);

-- One row for each time that a session got back (docs/fairness.md#fair-clock). The interval is the lost time; its part
-- that another credit of the session covers is not in `milliseconds`.
CREATE TABLE IF NOT EXISTS session_time_credits (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  reason VARCHAR(16) NOT NULL,
  outage_id UUID,
  began_at TIMESTAMPTZ NOT NULL,
  ended_at TIMESTAMPTZ NOT NULL,
  milliseconds INTEGER NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT session_time_credits_outage_once UNIQUE (session_id, outage_id),
  CONSTRAINT session_time_credits_interval_once UNIQUE (session_id, reason, began_at),
  CONSTRAINT session_time_credits_known_reason CHECK (reason IN ('database', 'realtime', 'mitra_absent')),
  CONSTRAINT session_time_credits_outage_has_an_id CHECK ((reason = 'mitra_absent') = (outage_id IS NULL)),
  CONSTRAINT session_time_credits_end_after_begin CHECK (ended_at > began_at),
  CONSTRAINT session_time_credits_not_more_than_lost CHECK (
    milliseconds > 0 AND milliseconds <= ceil(extract(EPOCH FROM ended_at - began_at) * 1000)
  )
);

-- The last signs of life of the parties of running sessions, and their absences (docs/fairness.md#absent-party). The
-- row of a session is written every few seconds, so its pages have room for updates in place.
CREATE TABLE IF NOT EXISTS session_presence (
  session_id UUID PRIMARY KEY NOT NULL,
  customer_seen_at TIMESTAMPTZ,
  mitra_seen_at TIMESTAMPTZ
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS session_absences (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  user_type VARCHAR(10) NOT NULL,
  since TIMESTAMPTZ NOT NULL,
  declared_at TIMESTAMPTZ NOT NULL,
  ended_at TIMESTAMPTZ,
  returned BOOLEAN NOT NULL DEFAULT false,
  CONSTRAINT session_absences_known_user_type CHECK (user_type IN ('customer', 'mitra')),
  CONSTRAINT session_absences_declared_after_silence CHECK (declared_at > since),
  CONSTRAINT session_absences_ended_after_silence CHECK (ended_at > since),
  CONSTRAINT session_absences_returned_has_ended CHECK (NOT returned OR ended_at IS NOT NULL)
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
  id UUID NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  mitra_id UUID NOT NULL REFERENCES mitras (id) ON DELETE RESTRICT,
  round_number INTEGER NOT NULL DEFAULT 1,
  wave_number INTEGER NOT NULL DEFAULT 0,
  notified_at TIMESTAMPTZ NOT NULL,
  answer_by TIMESTAMPTZ NOT NULL,
  response VARCHAR(20),
  responded_at TIMESTAMPTZ,
  active_session_count INTEGER NOT NULL DEFAULT 0,
  lost_by_ms INTEGER,
  PRIMARY KEY (session_id, id),
  CONSTRAINT chat_request_notifications_known_response CHECK (
    response IN ('ACCEPTED', 'REJECTED', 'MISSED', 'IGNORED', 'CANCELLED')
  ),
  CONSTRAINT chat_request_notifications_answered_has_a_time CHECK ((response IS NULL) = (responded_at IS NULL))
) PARTITION BY RANGE (session_id);

-- One row for each round of a search (docs/fairness.md#why-no-mitra-was-found).
CREATE TABLE IF NOT EXISTS search_rounds (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  round_number INTEGER NOT NULL,
  is_targeted BOOLEAN NOT NULL DEFAULT false,
  began_at TIMESTAMPTZ NOT NULL,
  ended_at TIMESTAMPTZ,
  active INTEGER NOT NULL,
  online INTEGER NOT NULL,
  fresh INTEGER NOT NULL,
  with_room INTEGER NOT NULL,
  askable INTEGER NOT NULL,
  asked INTEGER NOT NULL DEFAULT 0,
  accepted INTEGER NOT NULL DEFAULT 0,
  rejected INTEGER NOT NULL DEFAULT 0,
  unanswered INTEGER NOT NULL DEFAULT 0,
  closed INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT search_rounds_once UNIQUE (session_id, round_number),
  CONSTRAINT search_rounds_narrowing CHECK (
    active >= online AND online >= fresh AND fresh >= with_room AND with_room >= askable AND askable >= 0
  ),
  CONSTRAINT search_rounds_adds_up CHECK (asked = accepted + rejected + unanswered + closed)
);

-- The latest estimate of the wait for a mitra at each hour of the day, in UTC (docs/fairness.md#honest-promise).
CREATE TABLE IF NOT EXISTS wait_estimates (
  hour INTEGER PRIMARY KEY NOT NULL,
  searches INTEGER NOT NULL,
  p50_seconds INTEGER,
  p90_seconds INTEGER,
  judged INTEGER NOT NULL,
  missed INTEGER NOT NULL,
  estimated_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT wait_estimates_hour_of_day CHECK (hour BETWEEN 0 AND 23),
  CONSTRAINT wait_estimates_in_order CHECK (
    p90_seconds IS NULL OR (p50_seconds >= 1 AND p90_seconds >= p50_seconds)
  ),
  CONSTRAINT wait_estimates_missed_was_judged CHECK (missed BETWEEN 0 AND judged)
);

-- What the customer of a payment request was promised.
CREATE TABLE IF NOT EXISTS wait_promises (
  payment_request_id UUID PRIMARY KEY NOT NULL REFERENCES payment_requests (id) ON DELETE RESTRICT,
  made_at TIMESTAMPTZ NOT NULL,
  p50_seconds INTEGER NOT NULL,
  p90_seconds INTEGER NOT NULL,
  is_shown BOOLEAN NOT NULL,
  CONSTRAINT wait_promises_in_order CHECK (p50_seconds >= 1 AND p90_seconds >= p50_seconds)
);

-- Messages. Triggers check `session_id` once for each statement; a foreign key would check it for each row.
CREATE TABLE IF NOT EXISTS chat_messages (
  id UUID NOT NULL,
  session_id UUID NOT NULL,
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
  PRIMARY KEY (session_id, id),
  CONSTRAINT chat_messages_gapless UNIQUE (session_id, seq),
  CONSTRAINT chat_messages_once UNIQUE (session_id, sender_id, client_message_id),
  CONSTRAINT chat_messages_known_sender_type CHECK (sender_type IN ('customer', 'mitra', 'system')),
  CONSTRAINT chat_messages_known_status CHECK (status IN ('sent', 'delivered', 'read')),
  CONSTRAINT chat_messages_sane CHECK (seq > 0)
) PARTITION BY RANGE (session_id);

-- The digest of a chat at certain seqs (docs/fairness.md#digest): at each multiple of 64 that was computed, and at the
-- end once its texts are blanked.
CREATE TABLE IF NOT EXISTS chat_digests (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  seq INTEGER NOT NULL,
  digest BYTEA NOT NULL,
  CONSTRAINT chat_digests_once UNIQUE (session_id, seq),
  CONSTRAINT chat_digests_sane CHECK (seq > 0 AND length(digest) = 32)
);

-- The receipt of a completed session (docs/fairness.md#receipt). The row is made by the transaction that completes the
-- session; the receipt is signed soon afterwards, and never changes. The last columns are those of `who_wrote`, stored
-- with the signature, so that lists do not read the messages.
CREATE TABLE IF NOT EXISTS session_receipts (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  talked_until TIMESTAMPTZ NOT NULL,
  completed_at TIMESTAMPTZ NOT NULL,
  body TEXT,
  key_id VARCHAR(64),
  signature VARCHAR(86),
  signed_at TIMESTAMPTZ,
  messages_by_customer INTEGER,
  messages_by_mitra INTEGER,
  first_reply_seconds INTEGER,
  longest_silence_seconds INTEGER,
  CONSTRAINT session_receipts_session_id_key UNIQUE (session_id),
  CONSTRAINT session_receipts_signed_is_whole CHECK (
    (signed_at IS NULL) = (body IS NULL)
    AND (signed_at IS NULL) = (key_id IS NULL)
    AND (signed_at IS NULL) = (signature IS NULL)
  )
);

-- Money earned, and paid requests that led to no chat.
CREATE TABLE IF NOT EXISTS customer_transactions (
  id UUID PRIMARY KEY NOT NULL,
  customer_id UUID NOT NULL REFERENCES customers (id) ON DELETE RESTRICT,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  payment_request_id UUID REFERENCES payment_requests (id) ON DELETE RESTRICT,
  type VARCHAR(20) NOT NULL,
  amount INTEGER NOT NULL DEFAULT 0,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  refund_id UUID,
  CONSTRAINT customer_transactions_known_type CHECK (type IN ('session', 'extension', 'refund')),
  CONSTRAINT customer_transactions_refund_is_negative CHECK (
    (type = 'refund') = (amount < 0) AND (type = 'refund') = (refund_id IS NOT NULL)
  )
);

-- The cause tags of core/payments/failures/causes.py: `sesi migrate` adds missing ones.
CREATE TABLE IF NOT EXISTS cause_tags (
  tag VARCHAR(40) PRIMARY KEY NOT NULL
);

CREATE TABLE IF NOT EXISTS pairing_failures (
  id UUID PRIMARY KEY NOT NULL,
  payment_request_id UUID NOT NULL REFERENCES payment_requests (id) ON DELETE CASCADE,
  customer_id UUID NOT NULL REFERENCES customers (id) ON DELETE RESTRICT,
  targeted_mitra_id UUID REFERENCES mitras (id) ON DELETE RESTRICT,
  cause_tag VARCHAR(40) NOT NULL REFERENCES cause_tags (tag) ON DELETE RESTRICT,
  amount INTEGER NOT NULL,
  operator_action VARCHAR(20),
  actioned_by UUID REFERENCES control_center_users (id) ON DELETE RESTRICT,
  actioned_at TIMESTAMPTZ,
  note TEXT,
  superseded_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  sub_cause VARCHAR(20),
  twin_id UUID,
  assigned_to UUID,
  snoozed_until TIMESTAMPTZ,
  CONSTRAINT pairing_failures_known_action CHECK (operator_action IN ('refunded', 'credited', 'no_action')),
  CONSTRAINT pairing_failures_action_is_whole CHECK (
    (operator_action IS NULL) = (actioned_by IS NULL) AND (operator_action IS NULL) = (actioned_at IS NULL)
  ),
  CONSTRAINT pairing_failures_acted_stays CHECK (operator_action IS NULL OR superseded_at IS NULL),
  CONSTRAINT pairing_failures_known_sub_cause CHECK (
    sub_cause IN (
      'late', 'given_up', 'double', 'live_session', 'discount_used', 'erased', 'rejected', 'not_answered',
      'session_ended', 'mitra_inactive'
    )
  )
);

-- The refunds of pairing failures through the gateway (docs/fairness.md#refunds). A refund keeps the names by which the
-- gateway has its failed attempts. One by hand says so itself, because an erasure empties the name of the transfer.
CREATE TABLE IF NOT EXISTS refunds (
  id UUID PRIMARY KEY NOT NULL,
  failure_id UUID UNIQUE REFERENCES pairing_failures (id) ON DELETE RESTRICT,
  amount INTEGER NOT NULL,
  status VARCHAR(20) NOT NULL DEFAULT 'requested',
  reason TEXT,
  requested_by UUID NOT NULL REFERENCES control_center_users (id) ON DELETE RESTRICT,
  requested_at TIMESTAMPTZ NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 1,
  gateway_refund_id VARCHAR(255) UNIQUE,
  failure_code VARCHAR(100),
  asks INTEGER NOT NULL DEFAULT 0,
  ask_at TIMESTAMPTZ,
  settled_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  payment_request_id UUID NOT NULL,
  reference UUID,
  hand_reference VARCHAR(255),
  earlier_references UUID[],
  by_hand BOOLEAN NOT NULL DEFAULT false,
  CONSTRAINT refunds_known_status CHECK (status IN ('requested', 'pending', 'succeeded', 'failed')),
  CONSTRAINT refunds_sane CHECK (amount > 0 AND attempt > 0 AND asks >= 0),
  CONSTRAINT refunds_settled_has_a_time CHECK ((status IN ('requested', 'pending')) = (settled_at IS NULL)),
  CONSTRAINT refunds_open_is_asked_after CHECK ((status IN ('requested', 'pending')) = (ask_at IS NOT NULL)),
  CONSTRAINT refunds_failed_has_a_code CHECK ((status = 'failed') = (failure_code IS NOT NULL)),
  CONSTRAINT refunds_made_has_an_id CHECK (
    status NOT IN ('pending', 'succeeded') OR gateway_refund_id IS NOT NULL OR by_hand
  ),
  CONSTRAINT refunds_by_hand_is_earned_and_done CHECK (
    NOT by_hand OR status = 'succeeded' AND failure_id IS NULL AND gateway_refund_id IS NULL
  ),
  CONSTRAINT refunds_transfer_is_by_hand CHECK (hand_reference IS NULL OR by_hand),
  CONSTRAINT refunds_names_are_kept CHECK (reference IS NULL OR earlier_references IS NOT NULL),
  CONSTRAINT refunds_one_name_an_attempt CHECK (cardinality(earlier_references) <= attempt)
);

-- Events and pushes that are not delivered yet, and the answers of repeated requests. Pushes leave out the devices that
-- have an event without showing it (docs/protocol.md#events).
CREATE TABLE IF NOT EXISTS deliveries (
  id UUID PRIMARY KEY NOT NULL,
  recipient_id UUID NOT NULL,
  recipient_type VARCHAR(10) NOT NULL,
  event VARCHAR(40) NOT NULL,
  session_id UUID,
  payload TEXT NOT NULL,
  created_at TIMESTAMPTZ NOT NULL,
  pushed_real_at TIMESTAMPTZ,
  unshown_on UUID[]
);

CREATE TABLE IF NOT EXISTS pushes (
  id UUID PRIMARY KEY NOT NULL,
  auth_session_id UUID NOT NULL,
  push_token VARCHAR(255) NOT NULL,
  content JSONB NOT NULL,
  urgent BOOLEAN NOT NULL DEFAULT false,
  is_farewell BOOLEAN NOT NULL DEFAULT false,
  attempts INTEGER NOT NULL DEFAULT 0,
  due_real_at TIMESTAMPTZ NOT NULL,
  expires_real_at TIMESTAMPTZ NOT NULL
);

-- One row for each stage of an event on each device (docs/fairness.md#delivery-trail).
CREATE TABLE IF NOT EXISTS delivery_trail (
  id UUID NOT NULL,
  event_id UUID NOT NULL,
  stage VARCHAR(20) NOT NULL,
  auth_session_id UUID,
  recipient_id UUID NOT NULL,
  event VARCHAR(40) NOT NULL,
  session_id UUID,
  payment_request_id UUID,
  at TIMESTAMPTZ NOT NULL,
  PRIMARY KEY (event_id, id),
  CONSTRAINT delivery_trail_once UNIQUE NULLS NOT DISTINCT (event_id, auth_session_id, stage),
  CONSTRAINT delivery_trail_known_stage CHECK (stage IN ('sent', 'acknowledged', 'pushed', 'opened', 'given_up')),
  CONSTRAINT delivery_trail_device CHECK (auth_session_id IS NOT NULL OR stage = 'given_up')
) PARTITION BY RANGE (event_id);

CREATE TABLE IF NOT EXISTS idempotency_keys (
  id UUID PRIMARY KEY NOT NULL,
  user_id UUID NOT NULL,
  key VARCHAR(255) NOT NULL,
  fingerprint VARCHAR(64) NOT NULL,
  http_status INTEGER,
  answer TEXT,
  resource_id UUID,
  claimed_real_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT idempotency_keys_one_answer UNIQUE (user_id, key)
);

-- Leases of the processes, and outages (docs/architecture.md#processes). Each lease is renewed every second. The
-- `pid` is for the doctor (docs/doctor.md#database).
CREATE TABLE IF NOT EXISTS service_processes (
  place VARCHAR(255) PRIMARY KEY NOT NULL,
  kind VARCHAR(16) NOT NULL,
  since_at TIMESTAMPTZ NOT NULL,
  alive_at TIMESTAMPTZ NOT NULL,
  lost_at TIMESTAMPTZ NOT NULL,
  given_up_at TIMESTAMPTZ NOT NULL,
  pid INTEGER,
  CONSTRAINT service_processes_known_kind CHECK (kind IN ('api', 'realtime', 'jobs'))
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS outages (
  id UUID PRIMARY KEY NOT NULL,
  kind VARCHAR(16) NOT NULL,
  began_at TIMESTAMPTZ NOT NULL,
  ended_at TIMESTAMPTZ NOT NULL,
  credit_at TIMESTAMPTZ,
  credited_at TIMESTAMPTZ,
  CONSTRAINT outages_known_kind CHECK (kind IN ('database', 'realtime', 'api')),
  CONSTRAINT outages_end_after_begin CHECK (ended_at > began_at)
);

-- Work that one process of the cluster does at a time, such as exporting the cluster's metrics. Real time.
CREATE TABLE IF NOT EXISTS cluster_leases (
  name VARCHAR(40) PRIMARY KEY,
  holder UUID,
  until_real_at TIMESTAMPTZ,
  done_real_at TIMESTAMPTZ
);

-- What the last audit found about each rule. Service time.
CREATE TABLE IF NOT EXISTS ledger_audit_results (
  rule VARCHAR(200) PRIMARY KEY,
  violations INT NOT NULL,
  first_ids TEXT[] NOT NULL,
  depth VARCHAR(8) NOT NULL,
  checked_at TIMESTAMPTZ NOT NULL,
  since_at TIMESTAMPTZ,
  CONSTRAINT ledger_audit_results_known_depth CHECK (depth IN ('cheap', 'full')),
  CONSTRAINT ledger_audit_results_since_while_broken CHECK ((violations > 0) = (since_at IS NOT NULL))
);

-- Violations that operators have accepted (docs/operating.md#audits).
CREATE TABLE IF NOT EXISTS accepted_violations (
  id UUID PRIMARY KEY NOT NULL,
  rule VARCHAR(200) NOT NULL,
  object_id VARCHAR(200) NOT NULL,
  detail VARCHAR(2000) NOT NULL,
  reason VARCHAR(1000) NOT NULL,
  operator_id UUID NOT NULL,
  accepted_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT accepted_violations_once UNIQUE (rule, object_id, detail)
);

-- Simulations: what other settings would do (docs/simulation.md).
CREATE TABLE IF NOT EXISTS simulations (
  id UUID PRIMARY KEY NOT NULL,
  asked_by UUID NOT NULL REFERENCES control_center_users (id) ON DELETE RESTRICT,
  asked_at TIMESTAMPTZ NOT NULL,
  since_days INTEGER NOT NULL,
  settings JSONB NOT NULL,
  extra_shifts TEXT[] NOT NULL,
  runner UUID,
  claimed_until_real_at TIMESTAMPTZ,
  percent INTEGER NOT NULL DEFAULT 0,
  ended_at TIMESTAMPTZ,
  failure VARCHAR(24),
  details JSONB,
  result JSONB,
  CONSTRAINT simulations_known_failure CHECK (failure IN ('not_enough_history', 'too_slow', 'died')),
  CONSTRAINT simulations_ends_with_one CHECK ((ended_at IS NOT NULL)::INT = num_nonnulls(failure, result))
);

-- Erased users, and what is kept of them (docs/privacy.md#erasure).
CREATE TABLE IF NOT EXISTS erasures (
  id UUID NOT NULL PRIMARY KEY,
  user_type VARCHAR(16) NOT NULL,
  user_id UUID NOT NULL,
  requested_by VARCHAR(16) NOT NULL,
  began_at TIMESTAMPTZ NOT NULL,
  completed_at TIMESTAMPTZ,
  CONSTRAINT erasures_one_of_a_user UNIQUE (user_id),
  CONSTRAINT erasures_known_user_type CHECK (user_type IN ('customer', 'mitra')),
  CONSTRAINT erasures_known_requester CHECK (requested_by IN ('user', 'operator', 'command_line'))
);

CREATE TABLE IF NOT EXISTS erased_identities (
  hash VARCHAR(64) NOT NULL PRIMARY KEY,
  erased_at TIMESTAMPTZ NOT NULL
);

DO $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conname = 'payment_requests_extends_session_id_fkey') THEN
    ALTER TABLE payment_requests ADD CONSTRAINT payment_requests_extends_session_id_fkey
      FOREIGN KEY (extends_session_id) REFERENCES chat_sessions (id) ON DELETE RESTRICT;
  END IF;
END $$;

-- The first partitions of the tables with partitions by month
-- (docs/decisions/0018-partitions-by-the-month-of-an-id.md). They take the ids of this month and the next one;
-- `sesi migrate` makes the months after them.
DO $$
DECLARE
  month timestamp := date_trunc('month', timezone('UTC', clock_timestamp())) + interval '2 months';
  bound text := lpad(to_hex((extract(epoch FROM month) * 1000)::bigint), 12, '0') || repeat('0', 20);
  part record;
BEGIN
  FOR part IN
    SELECT *
    FROM (
      VALUES
        ('webhook_logs', ''),
        ('chat_request_notifications', ''),
        ('chat_messages', 'WITH (fillfactor = 80)'),
        ('delivery_trail', '')
    ) AS v (of, options)
    WHERE NOT EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = v.of::regclass)
  LOOP
    EXECUTE format(
      'CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (MINVALUE) TO (%L) %s',
      part.of || '_before_' || to_char(month, 'YYYY_MM'), part.of, bound::uuid, part.options);
  END LOOP;
END $$;

CREATE TABLE IF NOT EXISTS blocks (
  id UUID PRIMARY KEY NOT NULL,
  customer_id UUID NOT NULL REFERENCES customers (id) ON DELETE RESTRICT,
  mitra_id UUID NOT NULL REFERENCES mitras (id) ON DELETE RESTRICT,
  blocked_by VARCHAR(10) NOT NULL,
  session_id UUID NOT NULL,
  holds_since TIMESTAMPTZ NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT blocks_once UNIQUE (customer_id, mitra_id, blocked_by),
  CONSTRAINT blocks_known_party CHECK (blocked_by IN ('customer', 'mitra'))
);

CREATE TABLE IF NOT EXISTS session_reports (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  reporter VARCHAR(10) NOT NULL,
  reason VARCHAR(20) NOT NULL,
  message TEXT,
  resolution VARCHAR(20),
  note TEXT,
  resolved_by UUID,
  resolved_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT session_reports_once_a_party UNIQUE (session_id, reporter),
  CONSTRAINT session_reports_known_reporter CHECK (reporter IN ('customer', 'mitra')),
  CONSTRAINT session_reports_known_reason CHECK (
    reason IN ('no_answer', 'rude', 'harassment', 'sexual', 'self_harm', 'scam', 'other')
  ),
  CONSTRAINT session_reports_known_resolution CHECK (
    resolution IN ('dismissed', 'warned', 'blocked', 'made_good')
  ),
  CONSTRAINT session_reports_resolved_is_whole CHECK (
    (resolution IS NULL) = (resolved_at IS NULL) AND (resolution IS NULL) = (resolved_by IS NULL)
  ),
  CONSTRAINT session_reports_open_has_no_note CHECK (resolution IS NOT NULL OR note IS NULL)
);
