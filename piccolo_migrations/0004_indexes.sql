-- sha256 e413131452d6a52a68b32862a354fe90f9500d742d5e4c57c572a55cb06ba2e8
-- The indexes, by table. Each one serves a list, a search or a deadline, or makes rows unique.

CREATE EXTENSION IF NOT EXISTS pg_trgm;

-- control_center_users
CREATE INDEX IF NOT EXISTS control_center_users_created ON control_center_users (created_at, id);

-- operator_sign_in_addresses
CREATE INDEX IF NOT EXISTS operator_sign_in_addresses_email ON operator_sign_in_addresses (email_hash);
CREATE INDEX IF NOT EXISTS operator_sign_in_addresses_updated ON operator_sign_in_addresses (updated_at);

-- operator_audit_log
CREATE INDEX IF NOT EXISTS operator_audit_log_action ON operator_audit_log (action, created_at, id);
CREATE INDEX IF NOT EXISTS operator_audit_log_created ON operator_audit_log (created_at, id);
-- Rows about a list name its objects in "ids".
CREATE INDEX IF NOT EXISTS operator_audit_log_listed ON operator_audit_log USING gin ((after -> 'ids'))
WHERE object_id = 'list';
CREATE INDEX IF NOT EXISTS operator_audit_log_object ON operator_audit_log (object_id, created_at);
CREATE INDEX IF NOT EXISTS operator_audit_log_object_type ON operator_audit_log (object_type, created_at, id);
CREATE INDEX IF NOT EXISTS operator_audit_log_operator ON operator_audit_log (operator_id, created_at, id);

-- customers
CREATE UNIQUE INDEX IF NOT EXISTS customers_identity_a_sub ON customers (identity_a_sub)
WHERE identity_a_sub IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS customers_identity_b_sub ON customers (identity_b_sub)
WHERE identity_b_sub IS NOT NULL;
CREATE INDEX IF NOT EXISTS customers_account_belongs_to ON customers (account_belongs_to)
WHERE account_belongs_to IS NOT NULL;
-- The blocked accounts are few, and a list of them reads no other account.
CREATE INDEX IF NOT EXISTS customers_blocked ON customers (id)
WHERE blocked_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS customers_created ON customers (created_at, id);
CREATE INDEX IF NOT EXISTS customers_joined ON customers (joined_real_at)
WHERE joined_real_at IS NOT NULL;
-- Rows of an account by the time they joined, for each sign-in.
CREATE INDEX IF NOT EXISTS customers_joined_last ON customers (account_belongs_to, joined_real_at DESC NULLS LAST)
WHERE account_belongs_to IS NOT NULL;
-- Support searches parts of names, numbers and addresses.
CREATE INDEX IF NOT EXISTS customers_folded_parts ON customers USING gin (
  folded(display_name) gin_trgm_ops, phone gin_trgm_ops, folded(email) gin_trgm_ops
);
-- Anonymous customers who were joined to no account. Most of those who are old have paid.
CREATE INDEX IF NOT EXISTS customers_unused ON customers (created_at, id)
WHERE is_anonymous AND account_belongs_to IS NULL;

-- mitras
CREATE INDEX IF NOT EXISTS mitras_created ON mitras (created_at, id);

-- mitra_online_status
CREATE INDEX IF NOT EXISTS mitra_online_status_silence ON mitra_online_status (heartbeat_channel, last_heartbeat_at)
WHERE is_online;
-- The online mitras with an unanswered presence check: few, and none while `reachability_probe` is off.
CREATE INDEX IF NOT EXISTS mitra_online_status_unanswered ON mitra_online_status (checked_at)
WHERE is_online AND checked_at > last_heartbeat_at;

-- mitra_online_logs
CREATE INDEX IF NOT EXISTS mitra_online_logs_mitra_id ON mitra_online_logs (mitra_id, "timestamp");
CREATE INDEX IF NOT EXISTS mitra_online_logs_timestamp ON mitra_online_logs ("timestamp");

-- auth_sessions
CREATE UNIQUE INDEX IF NOT EXISTS auth_sessions_push_token ON auth_sessions (push_token)
WHERE push_token IS NOT NULL;
CREATE INDEX IF NOT EXISTS auth_sessions_previous ON auth_sessions (previous_token_hash)
WHERE previous_token_hash IS NOT NULL;
CREATE INDEX IF NOT EXISTS auth_sessions_revoked ON auth_sessions (revoked_real_at)
WHERE revoked_real_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS auth_sessions_user ON auth_sessions (user_id);
CREATE INDEX IF NOT EXISTS auth_sessions_mitras ON auth_sessions (user_id, expires_at)
WHERE user_type = 'mitra' AND revoked_at IS NULL;
-- Auth sessions by when they ended or will end.
CREATE INDEX IF NOT EXISTS auth_sessions_ended ON auth_sessions (least(revoked_at, expires_at));

-- otp_requests
-- The hourly budget counts from the index alone.
CREATE INDEX IF NOT EXISTS otp_requests_budget ON otp_requests (created_at) INCLUDE (known_phone)
WHERE user_type = 'customer' AND NOT delivery_failed;
CREATE INDEX IF NOT EXISTS otp_requests_ip ON otp_requests (ip_address, created_at);
CREATE INDEX IF NOT EXISTS otp_requests_phone ON otp_requests (phone, created_at);
CREATE INDEX IF NOT EXISTS otp_requests_send_due ON otp_requests (send_due_real_at)
WHERE send_due_real_at IS NOT NULL;
-- Requests for codes of erased users, whose phone is a mark, for the sweep that deletes them.
CREATE INDEX IF NOT EXISTS otp_requests_marked ON otp_requests (created_at) WHERE phone LIKE '#%';

-- used_identity_tokens
CREATE INDEX IF NOT EXISTS used_identity_tokens_expires ON used_identity_tokens (expires_real_at);

-- pricing_tiers_history
CREATE INDEX IF NOT EXISTS pricing_tiers_history_tier ON pricing_tiers_history (pricing_tier_id, changed_at);

-- pricing_schedules
-- One price for each tier and minute.
CREATE UNIQUE INDEX IF NOT EXISTS pricing_schedules_minute ON pricing_schedules (
  pricing_tier_id, date_trunc('minute', starts_at AT TIME ZONE 'UTC')
);
CREATE INDEX IF NOT EXISTS pricing_schedules_starts ON pricing_schedules (starts_at);

-- pricing_promotions_history
CREATE INDEX IF NOT EXISTS pricing_promotions_history_promotion ON pricing_promotions_history (
  pricing_promotion_id, changed_at
);

-- payment_requests
-- For each customer one pending and one confirmed request, and one discount; for each session one open extension.
CREATE UNIQUE INDEX IF NOT EXISTS payment_requests_one_confirmed ON payment_requests (customer_id)
WHERE status = 'confirmed' AND NOT is_extension;
CREATE UNIQUE INDEX IF NOT EXISTS payment_requests_one_discount ON payment_requests (customer_id)
WHERE status IN ('pending', 'confirmed', 'consumed') AND is_first_session_discount;
CREATE UNIQUE INDEX IF NOT EXISTS payment_requests_one_extension ON payment_requests (extends_session_id)
WHERE status IN ('pending', 'confirmed') AND is_extension;
CREATE UNIQUE INDEX IF NOT EXISTS payment_requests_one_pending ON payment_requests (customer_id)
WHERE status = 'pending' AND NOT is_extension;
CREATE INDEX IF NOT EXISTS payment_requests_amount ON payment_requests (amount, created_at, id);
CREATE INDEX IF NOT EXISTS payment_requests_confirmed ON payment_requests (confirmed_at)
WHERE status = 'confirmed';
CREATE INDEX IF NOT EXISTS payment_requests_created ON payment_requests (created_at, id);
CREATE INDEX IF NOT EXISTS payment_requests_customer ON payment_requests (customer_id, created_at);
CREATE INDEX IF NOT EXISTS payment_requests_extends ON payment_requests (extends_session_id)
WHERE extends_session_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS payment_requests_paid ON payment_requests (confirmed_at) INCLUDE (amount)
WHERE confirmed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS payment_requests_pending ON payment_requests (expires_at) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS payment_requests_polls ON payment_requests (poll_at)
WHERE status = 'pending' AND poll_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS payment_requests_status ON payment_requests (status, created_at, id);
CREATE INDEX IF NOT EXISTS payment_requests_targeted ON payment_requests (targeted_mitra_id, created_at)
WHERE targeted_mitra_id IS NOT NULL;

-- invoices_asked
CREATE INDEX IF NOT EXISTS invoices_asked_address ON invoices_asked (address, asked_at);
CREATE INDEX IF NOT EXISTS invoices_asked_age ON invoices_asked (asked_at);
CREATE INDEX IF NOT EXISTS invoices_asked_customer ON invoices_asked (customer_id, asked_at);

-- webhook_logs
CREATE INDEX IF NOT EXISTS webhook_logs_errors ON webhook_logs (received_at) WHERE http_status >= 400;
CREATE INDEX IF NOT EXISTS webhook_logs_external ON webhook_logs (external_id);
CREATE INDEX IF NOT EXISTS webhook_logs_invoice ON webhook_logs (gateway_invoice_id);
CREATE INDEX IF NOT EXISTS webhook_logs_received ON webhook_logs (received_at, id);
CREATE INDEX IF NOT EXISTS webhook_logs_result ON webhook_logs (processing_result, received_at, id);
-- Calls that a process stored and did not finish.
CREATE INDEX IF NOT EXISTS webhook_logs_unstamped ON webhook_logs (received_at) WHERE http_status IS NULL;
-- For the retention of calls without a valid token.
CREATE INDEX IF NOT EXISTS webhook_logs_unproven ON webhook_logs (received_at) WHERE NOT token_valid;

-- chat_sessions
-- For each payment one session that has not failed; for each customer one live session.
CREATE UNIQUE INDEX IF NOT EXISTS chat_sessions_one_for_a_payment ON chat_sessions (payment_request_id)
WHERE status NOT IN ('failed', 'cancelled');
CREATE UNIQUE INDEX IF NOT EXISTS chat_sessions_one_live ON chat_sessions (customer_id)
WHERE status IN ('searching', 'active', 'expired');
CREATE INDEX IF NOT EXISTS chat_sessions_completed_lately ON chat_sessions (ended_at)
WHERE status = 'completed';
CREATE INDEX IF NOT EXISTS chat_sessions_created ON chat_sessions (created_at, id);
CREATE INDEX IF NOT EXISTS chat_sessions_customer ON chat_sessions (customer_id, created_at);
CREATE INDEX IF NOT EXISTS chat_sessions_mitra ON chat_sessions (mitra_id, created_at);
CREATE INDEX IF NOT EXISTS chat_sessions_mitra_status ON chat_sessions (mitra_id, status);
-- The activity summary reads ranges from indexes alone.
CREATE INDEX IF NOT EXISTS chat_sessions_paired ON chat_sessions (paired_at) INCLUDE (mitra_id, topic_sensitivity)
WHERE paired_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS chat_sessions_payment ON chat_sessions (payment_request_id);
-- Lists by state, newest first.
CREATE INDEX IF NOT EXISTS chat_sessions_status_newest ON chat_sessions (status, created_at, id);
CREATE INDEX IF NOT EXISTS chat_sessions_topic_sensitivity ON chat_sessions (topic_sensitivity);
-- One index for each deadline of the jobs process.
CREATE INDEX IF NOT EXISTS chat_sessions_due_expiry ON chat_sessions (expires_at) WHERE status = 'active';
CREATE INDEX IF NOT EXISTS chat_sessions_due_grace ON chat_sessions (grace_ends_at)
WHERE status IN ('expired', 'closing');
CREATE INDEX IF NOT EXISTS chat_sessions_due_repeat ON chat_sessions (asked_repeat_at)
WHERE status = 'searching' AND asked_repeat_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS chat_sessions_due_round ON chat_sessions (round_ends_at)
WHERE status = 'searching';
CREATE INDEX IF NOT EXISTS chat_sessions_due_warning ON chat_sessions (warn_at) WHERE warn_at IS NOT NULL;
-- For the sweeps of retention: sessions with texts by the time of their end, and those that are being blanked.
CREATE INDEX IF NOT EXISTS chat_sessions_with_texts ON chat_sessions (ended_at)
WHERE status = 'completed' AND blanked_at IS NULL;
CREATE INDEX IF NOT EXISTS chat_sessions_blanking ON chat_sessions (id)
WHERE blanked_seq IS NOT NULL;

-- session_extensions
CREATE UNIQUE INDEX IF NOT EXISTS session_extensions_one_pending ON session_extensions (session_id)
WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS session_extensions_session ON session_extensions (session_id);
CREATE INDEX IF NOT EXISTS session_extensions_due ON session_extensions (answer_by) WHERE status = 'pending';

-- session_sensitivity_log
CREATE INDEX IF NOT EXISTS session_sensitivity_log_session ON session_sensitivity_log (session_id);

-- session_absences
-- A party has one open absence in a session. The index also finds the open ones.
CREATE UNIQUE INDEX IF NOT EXISTS session_absences_one_open ON session_absences (session_id, user_type)
WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS session_absences_session ON session_absences (session_id);

-- chat_request_notifications
CREATE UNIQUE INDEX IF NOT EXISTS chat_request_notifications_one_open ON chat_request_notifications (
  session_id, mitra_id
)
WHERE response IS NULL;
CREATE UNIQUE INDEX IF NOT EXISTS chat_request_notifications_one_winner ON chat_request_notifications (session_id)
WHERE response = 'ACCEPTED';
CREATE INDEX IF NOT EXISTS chat_request_notifications_activity ON chat_request_notifications (notified_at) INCLUDE (
  mitra_id, response, session_id
);
-- The answers of mitras, for the activity summary, which reads ranges from indexes alone.
CREATE INDEX IF NOT EXISTS chat_request_notifications_answers ON chat_request_notifications (notified_at) INCLUDE (
  mitra_id, session_id, responded_at, lost_by_ms
)
WHERE response IN ('ACCEPTED', 'REJECTED') OR lost_by_ms IS NOT NULL;
-- Whether a session has asked a mitra, and all invitations of a session.
CREATE INDEX IF NOT EXISTS chat_request_notifications_asked ON chat_request_notifications (session_id, mitra_id);
CREATE INDEX IF NOT EXISTS chat_request_notifications_mitra ON chat_request_notifications (mitra_id, notified_at);
CREATE INDEX IF NOT EXISTS chat_request_notifications_newest ON chat_request_notifications (notified_at, id);
CREATE INDEX IF NOT EXISTS chat_request_notifications_open ON chat_request_notifications (mitra_id)
WHERE response IS NULL;

-- wait_promises
CREATE INDEX IF NOT EXISTS wait_promises_made ON wait_promises (made_at, payment_request_id);

-- customer_transactions
-- A payment request is earned once, and refunded in any number of parts.
CREATE UNIQUE INDEX IF NOT EXISTS customer_transactions_earned ON customer_transactions (payment_request_id)
WHERE type <> 'refund';
CREATE UNIQUE INDEX IF NOT EXISTS customer_transactions_refund ON customer_transactions (refund_id)
WHERE refund_id IS NOT NULL;
-- For the figures of the business (core/desk/business_figures.sql): what was earned on some days.
CREATE INDEX IF NOT EXISTS customer_transactions_created ON customer_transactions (created_at);
CREATE INDEX IF NOT EXISTS customer_transactions_payment ON customer_transactions (payment_request_id);
CREATE INDEX IF NOT EXISTS customer_transactions_newest ON customer_transactions (customer_id, created_at, id);
CREATE INDEX IF NOT EXISTS customer_transactions_session ON customer_transactions (session_id);

-- session_receipts
CREATE INDEX IF NOT EXISTS session_receipts_unsigned ON session_receipts (completed_at) WHERE signed_at IS NULL;

-- pairing_failures
CREATE UNIQUE INDEX IF NOT EXISTS pairing_failures_one_live ON pairing_failures (payment_request_id)
WHERE superseded_at IS NULL;
CREATE INDEX IF NOT EXISTS pairing_failures_amount ON pairing_failures (amount, created_at, id);
CREATE INDEX IF NOT EXISTS pairing_failures_cause_newest ON pairing_failures (cause_tag, created_at, id);
CREATE INDEX IF NOT EXISTS pairing_failures_created ON pairing_failures (created_at DESC);
CREATE INDEX IF NOT EXISTS pairing_failures_payment ON pairing_failures (payment_request_id);
-- For the figures of the business: what was refunded on some days.
CREATE INDEX IF NOT EXISTS pairing_failures_refunded ON pairing_failures (actioned_at)
WHERE operator_action = 'refunded';
-- Failures of a person's page, by the mitra who was asked for.
CREATE INDEX IF NOT EXISTS pairing_failures_targeted ON pairing_failures (targeted_mitra_id)
WHERE targeted_mitra_id IS NOT NULL;
-- Failures that wait for an operator. Superseded ones never get an action.
CREATE INDEX IF NOT EXISTS pairing_failures_waiting ON pairing_failures (created_at, id) INCLUDE (amount)
WHERE operator_action IS NULL AND superseded_at IS NULL;
-- The database looks here for failures of each customer that it deletes.
CREATE INDEX IF NOT EXISTS pairing_failures_customer ON pairing_failures (customer_id);
CREATE INDEX IF NOT EXISTS pairing_failures_twin ON pairing_failures (twin_id) WHERE twin_id IS NOT NULL;

-- refunds
CREATE INDEX IF NOT EXISTS refunds_payment ON refunds (payment_request_id);
CREATE UNIQUE INDEX IF NOT EXISTS refunds_by_hand ON refunds (payment_request_id, hand_reference)
WHERE hand_reference IS NOT NULL;
CREATE INDEX IF NOT EXISTS refunds_earlier ON refunds USING gin (earlier_references)
WHERE earlier_references IS NOT NULL;
-- The gateway names a refund by this id.
CREATE UNIQUE INDEX IF NOT EXISTS refunds_reference ON refunds (coalesce(reference, failure_id, id));
CREATE INDEX IF NOT EXISTS refunds_to_ask ON refunds (ask_at)
WHERE status IN ('requested', 'pending');

-- deliveries
CREATE INDEX IF NOT EXISTS deliveries_recipient ON deliveries (recipient_id);
CREATE INDEX IF NOT EXISTS deliveries_waiting ON deliveries (created_at);
-- Events whose pushes were not claimed yet.
CREATE INDEX IF NOT EXISTS deliveries_push_due ON deliveries (created_at) WHERE pushed_real_at IS NULL;

-- delivery_trail
CREATE INDEX IF NOT EXISTS delivery_trail_session
ON delivery_trail (session_id, event_id) WHERE session_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS delivery_trail_payment
ON delivery_trail (payment_request_id, event_id) WHERE payment_request_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS delivery_trail_recipient ON delivery_trail (recipient_id, id);

-- pushes
CREATE INDEX IF NOT EXISTS pushes_due ON pushes (due_real_at);
-- The order in which pushes are claimed.
CREATE INDEX IF NOT EXISTS pushes_next ON pushes (urgent DESC, due_real_at);

-- idempotency_keys
CREATE INDEX IF NOT EXISTS idempotency_keys_age ON idempotency_keys (created_at);

-- outages
CREATE UNIQUE INDEX IF NOT EXISTS outages_one_begin ON outages (kind, began_at);
CREATE INDEX IF NOT EXISTS outages_by_end ON outages (ended_at);
-- The outages whose credits are due.
CREATE INDEX IF NOT EXISTS outages_credit ON outages (credit_at)
WHERE credit_at IS NOT NULL;

-- simulations
-- One waits or runs at a time.
CREATE UNIQUE INDEX IF NOT EXISTS simulations_one_at_a_time ON simulations ((ended_at IS NULL)) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS simulations_asked ON simulations (asked_at, id);

-- erasures
CREATE INDEX IF NOT EXISTS erasures_began ON erasures (began_at, id);
CREATE INDEX IF NOT EXISTS erasures_pending ON erasures (began_at, id) WHERE completed_at IS NULL;

-- blocks
CREATE INDEX IF NOT EXISTS blocks_mitra_id ON blocks (mitra_id, created_at);

-- session_reports
CREATE INDEX IF NOT EXISTS session_reports_created_at ON session_reports (created_at DESC, id DESC);
CREATE INDEX IF NOT EXISTS session_reports_open ON session_reports (created_at DESC, id DESC)
WHERE resolution IS NULL;
CREATE INDEX IF NOT EXISTS session_reports_with_texts ON session_reports (resolved_at)
WHERE message IS NOT NULL OR note IS NOT NULL;
