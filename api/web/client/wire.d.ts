/**
 * The service's interfaces as types: bodies of requests and answers, frames, routes and error codes. Fields keep the
 * names that they have in JSON. Times are ISO 8601 in UTC, ids are UUIDs, amounts are whole Rupiah. New fields, frames
 * and codes may come: ignore those that you do not know.
 *
 * Made by `make pages` from the OpenAPI and AsyncAPI documents, with `tools/pages/client_types.py`; a test keeps it current.
 */

/** The caller's running session and running search; each is null without one. */
export interface ActiveSession {
  session: Session | null;
  unread_count: number;
  searching: Session | null;
}

/** Whether the mitra accepts the extension. */
export interface AnswerBody {
  accept: boolean;
}

/**
 * Switches that change how apps behave, each named like its configuration row; the oldest usable versions; and the
 * maintenance notice, null if there is none or its time is over.
 */
export interface AppConfig {
  early_end_customer_enabled: boolean;
  early_end_mitra_enabled: boolean;
  end_session_two_step_confirm: boolean;
  three_minute_warning_enabled: boolean;
  payment_method_qris_first: boolean;
  sensitive_flip_confirmation_enabled: boolean;
  sensitive_flag_one_way_latch: boolean;
  minimum_versions: MinimumVersions;
  maintenance: Maintenance | null;
}

/** The confirmed payment request of the extension. */
export interface AskBody {
  payment_request_id: string;
}

/** The number of mitras who could take a chat request now, and how long customers usually wait for one. */
export interface Available {
  available: number;
  typical_wait_seconds: TypicalWait | null;
}

/** Why a paid request led to no chat. */
export type CauseTag =
  | "all_mitras_rejected"
  | "customer_cancelled"
  | "extension_rejected"
  | "extension_safeguard_tripped"
  | "no_mitra_available"
  | "payment_session_expired"
  | "targeted_mitra_offline"
  | "targeted_mitra_rejected"
  | "targeted_mitra_timeout";

/** A mitra from the customer's history. `topics` and `closures` are those of the last session with them. */
export interface ChatHistoryRow {
  mitra_id: string;
  display_name: string;
  last_session_id: string;
  last_session_at: string;
  topics: string[] | null;
  mitra_is_online: boolean;
  sessions_count: number;
  closures: Closure[];
}

/** One page of a list. `next_cursor` is null on the last page. */
export interface ChatHistoryRowItems {
  items: ChatHistoryRow[];
  next_cursor: string | null;
}

/** A chat request that is open to a mitra. */
export interface ChatRequest {
  session_id: string;
  customer_display_name: string | null;
  mode: "call" | "chat";
  topics: string[] | null;
  topic_sensitivity: Sensitivity;
  duration_minutes: number;
  kind: "blast" | "targeted";
  notified_at: string;
  answer_by: string;
}

/** One page of a list. `next_cursor` is null on the last page. */
export interface ChatRequestItems {
  items: ChatRequest[];
  next_cursor: string | null;
}

/** The goodbye of one party. `blanked`: its text was removed for good, so `message` is empty. */
export interface Closure {
  user_type: "customer" | "mitra";
  message: string;
  created_at: string;
  blanked: boolean;
}

/** The caller's goodbye. */
export interface ClosureBody {
  message: string;
}

/** The code that was sent for `otp_request_id`. */
export interface CodeBody {
  otp_request_id: string;
  code: string;
}

/** The answer to a request for a code. */
export interface CodeRequest {
  otp_request_id: string;
  expires_at: string;
  resend_after_seconds: number;
}

/** Why a session gets paid time back: an outage of this kind, or the mitra was away. */
export type CreditReason = "database" | "mitra_absent" | "realtime";

/** A customer. */
export interface Customer {
  id: string;
  phone: string | null;
  display_name: string | null;
  is_anonymous: boolean;
  email: string | null;
  push_enabled: boolean;
  account_belongs_to: string | null;
  usp_seen: boolean;
  created_at: string;
}

/** The tokens of a sign-in or refresh, with the customer. */
export interface CustomerTokens {
  access_token: string;
  refresh_token: string;
  token_type: "Bearer";
  expires_in: number;
  customer: Customer;
}

/** A device on which the caller is signed in. `current` is true for the device that sent the request. */
export interface Device {
  id: string;
  device_info: DeviceInfo;
  created_at: string;
  last_used_at: string | null;
  expires_at: string;
  current: boolean;
}

/** What the app reported about its device at sign-in. */
export interface DeviceInfo {
  user_agent: string | null;
  platform: string | null;
  app_version: string | null;
}

/** One page of a list. `next_cursor` is null on the last page. */
export interface DeviceItems {
  items: Device[];
  next_cursor: string | null;
}

/** How the caller proves that the account is theirs. */
export interface EraseBody {
  otp_request_id?: string | null;
  code?: string | null;
  provider?: "a" | "b" | null;
  identity_token?: string | null;
  nonce?: string | null;
}

/** An erasure that has begun. Texts follow within minutes. */
export interface Erasure {
  erasure_id: string;
  began_at: string;
}

/** A refusal. */
export interface ErrorBody {
  error: { code: ErrorCode; message: string; details?: ErrorDetails; retry_after_seconds?: number };
}

/** The code of a refusal. New codes may be added: treat an unknown one by its HTTP status. */
export type ErrorCode =
  | "BODY_TOO_LARGE"
  | "CLOSURE_EXISTS"
  | "DISCOUNT_NOT_ELIGIBLE"
  | "DISPLAY_NAME_REQUIRED"
  | "EARLY_END_DISABLED"
  | "EXPOSED_DEVELOPMENT"
  | "EXTENSION_LIMIT"
  | "EXTENSION_PENDING"
  | "EXTENSION_RESOLVED"
  | "FAILURE_ACTIONED"
  | "FORBIDDEN"
  | "FREE_REQUEST_OPEN"
  | "GATEWAY_UNAVAILABLE"
  | "HEADERS_TOO_LARGE"
  | "HTTPS_REQUIRED"
  | "IDEMPOTENCY_IN_FLIGHT"
  | "IDEMPOTENCY_MISMATCH"
  | "IDENTITY_TOKEN_INVALID"
  | "INTERNAL_ERROR"
  | "MALFORMED"
  | "METHOD_NOT_ALLOWED"
  | "MITRA_AT_CAPACITY"
  | "MITRA_OFFLINE"
  | "NOT_FOUND"
  | "NOT_PREVIOUS_MITRA"
  | "NOT_TARGETED"
  | "NO_MITRA_AVAILABLE"
  | "OTP_ATTEMPTS_EXCEEDED"
  | "OTP_BUDGET_EXCEEDED"
  | "OTP_COOLDOWN"
  | "OTP_DELIVERY_FAILED"
  | "OTP_EXPIRED"
  | "OTP_INVALID"
  | "OTP_RATE_LIMIT_IP"
  | "OTP_RATE_LIMIT_PHONE"
  | "PAYMENT_NOT_CONFIRMED"
  | "PAYMENT_NOT_PENDING"
  | "PRICE_CHANGED"
  | "PROVIDER_DISABLED"
  | "RATE_LIMITED"
  | "RECENT_SIGN_IN_REQUIRED"
  | "REFRESH_INVALID"
  | "REQUEST_CLOSED"
  | "REQUEST_TAKEN"
  | "REQUEST_TIMEOUT"
  | "SENSITIVITY_LATCHED"
  | "SESSION_IN_PROGRESS"
  | "SESSION_NOT_ACTIVE"
  | "SESSION_NOT_CLOSABLE"
  | "SESSION_NOT_COMPLETED"
  | "SESSION_NOT_EXTENDABLE"
  | "SESSION_NOT_SEARCHING"
  | "TIER_NOT_FOUND"
  | "TOO_FAST"
  | "UNAUTHENTICATED"
  | "UNAVAILABLE"
  | "UNSUPPORTED_MEDIA_TYPE"
  | "VALIDATION_ERROR"
  | (string & {});

/** More about the refusal. Which fields there are depends on `code`. */
export interface ErrorDetails {
  /** The fields that are not valid, at most 20 (VALIDATION_ERROR). */
  fields?: { field: string; message: string }[];
  /** The number of further fields that are not valid. */
  more?: number;
  /** The session that is in the way, or was asked for. */
  session_id?: string | null;
  /** The payment request that is in the way. */
  payment_request_id?: string | null;
  /** Tries left for the phone code. */
  attempts_remaining?: number;
  /** The object that exists already (TIER_EXISTS). */
  id?: string;
  /** The request's id, as in the log (INTERNAL_ERROR). */
  request_id?: string;
}

/** Everything that is stored of the calling customer. */
export interface Export {
  exported_at: string;
  profiles: ExportedProfile[];
  devices: ExportedDevice[];
  codes: ExportedCode[];
  payment_requests: ExportedPayment[];
  transactions: ExportedTransaction[];
  sessions: ExportedSession[];
  deliveries: ExportedDelivery[];
  receipts: ExportedReceipt[];
  time_credits: ExportedTimeCredit[];
  absences: ExportedAbsence[];
}

/** When the customer gave no sign of life in a session; `returned` is false if the session ended before. */
export interface ExportedAbsence {
  id: string;
  session_id: string;
  since: string;
  declared_at: string;
  ended_at: string | null;
  returned: boolean;
}

/** A request for a code to the phone. It does not have the code. */
export interface ExportedCode {
  id: string;
  phone: string;
  channel: string;
  created_at: string;
  ip_address: string;
  used_at: string | null;
}

/** What happened to an event on one of the devices; `device_id` is null if it was given up for all of them. */
export interface ExportedDelivery {
  id: string;
  event_id: string;
  stage: "acknowledged" | "given_up" | "opened" | "pushed" | "sent";
  event: string;
  session_id: string | null;
  payment_request_id: string | null;
  at: string;
  device_id: string | null;
}

/** A sign-in on a device, and what the app said of the device. */
export interface ExportedDevice {
  id: string;
  device_info: Record<string, unknown> | null;
  locale: string | null;
  created_at: string;
  last_used_at: string | null;
  expires_at: string;
  revoked_at: string | null;
  push_enabled: boolean;
}

/** A goodbye of the customer or the mitra. */
export interface ExportedGoodbye {
  id: string;
  message: string;
  created_at: string;
  sender: "customer" | "mitra";
}

/** A message of the customer or the mitra. */
export interface ExportedMessage {
  id: string;
  seq: number;
  type: string;
  delivered_at: string | null;
  read_at: string | null;
  created_at: string;
  sender: string;
  content: string;
  metadata: unknown;
}

/** A payment request. `mitra` is the name of the mitra that it was meant for. */
export interface ExportedPayment {
  id: string;
  amount: number;
  duration_minutes: number;
  is_first_session_discount: boolean;
  is_extension: boolean;
  extends_session_id: string | null;
  mode: "call" | "chat";
  status: PaymentStatus;
  topics: string[] | null;
  created_at: string;
  confirmed_at: string | null;
  consumed_at: string | null;
  expires_at: string;
  gateway_invoice_id: string | null;
  mitra: string | null;
  failure: string | null;
  operator_action: OperatorAction | null;
}

/** The account, or an anonymous customer that has joined it. */
export interface ExportedProfile {
  id: string;
  legacy_uid: string | null;
  phone: string | null;
  display_name: string | null;
  is_anonymous: boolean;
  email: string | null;
  identity_a_sub: string | null;
  identity_b_sub: string | null;
  account_belongs_to: string | null;
  usp_seen: boolean;
  created_at: string;
}

/** The receipt of a session; `signed` is what the parties can read and verify. */
export interface ExportedReceipt {
  id: string;
  session_id: string;
  signed: SignedReceipt;
}

/** A session with its conversation. It names the mitra, and has nothing else about them. */
export interface ExportedSession {
  id: string;
  payment_request_id: string | null;
  mode: "call" | "chat";
  status: SessionStatus;
  created_at: string;
  paired_at: string | null;
  ended_at: string | null;
  ended_by: "customer" | "mitra" | "operator" | "timer" | null;
  duration_minutes: number | null;
  price: number;
  expires_at: string | null;
  extended_minutes: number;
  topic_sensitivity: Sensitivity;
  topics: string[] | null;
  blanked_at: string | null;
  mitra: string | null;
  goodbyes: ExportedGoodbye[];
  messages: ExportedMessage[];
}

/** Paid time that a session got back for what it lost from `began_at` to `ended_at`. */
export interface ExportedTimeCredit {
  id: string;
  session_id: string;
  reason: CreditReason;
  began_at: string;
  ended_at: string;
  milliseconds: number;
  created_at: string;
}

/** A payment that was earned. */
export interface ExportedTransaction {
  id: string;
  session_id: string;
  payment_request_id: string | null;
  type: "extension" | "session";
  amount: number;
  created_at: string;
}

/**
 * More minutes for a session, paid before the mitra is asked.
 *
 * If the mitra has not answered by `answer_by`, the service does.
 */
export interface Extension {
  id: string;
  session_id: string;
  requested_duration_minutes: number;
  requested_price: number;
  status: ExtensionStatus;
  answer_by: string;
  topic_sensitivity: Sensitivity;
}

/** The state of an extension. */
export type ExtensionStatus = "approved" | "auto_approved" | "pending" | "rejected" | "safeguard_tripped";

/**
 * The first-session discount, and whether the caller can have it. `gimmick_price_idr` is the crossed-out price to
 * show.
 */
export interface FirstSessionDiscount {
  enabled: boolean;
  eligible: boolean;
  price_idr: number;
  gimmick_price_idr: number;
  duration_minutes: number;
  modes: ("call" | "chat")[];
}

/** The code of an `error` frame. New codes may be added. */
export type FrameErrorCode =
  | "FORBIDDEN"
  | "INVALID_FRAME"
  | "MITRA_AT_CAPACITY"
  | "MITRA_OFFLINE"
  | "NOT_FOUND"
  | "REQUEST_CLOSED"
  | "REQUEST_TAKEN"
  | "SESSION_NOT_ACTIVE"
  | "TOO_FAST"
  | "UNAVAILABLE"
  | "UNKNOWN_TYPE"
  | "VALIDATION_ERROR"
  | (string & {});

/** A provider's signed identity token, and the nonce with which the app requested it. */
export interface IdentityBody {
  identity_token: string;
  nonce?: string | null;
}

/** A public key of receipts (RFC 8037): `x` is the key in base64url. */
export interface Jwk {
  kty: string;
  crv: string;
  kid: string;
  x: string;
}

/** The public keys of all receipts, also of those that older keys have signed. */
export interface JwkSet {
  keys: Jwk[];
}

/** A notice that apps show in the user's language until `until`; null: until it is removed. */
export interface Maintenance {
  message_id: string;
  message_en: string;
  until: string | null;
}

/**
 * A chat message. `seq` counts the messages of its session: 1, 2, 3 … without gaps.
 *
 * `blanked`: the text was removed for good, so `content` is empty and `metadata` null.
 */
export interface Message {
  id: string;
  session_id: string;
  seq: number;
  sender_type: "customer" | "mitra" | "system";
  sender_id: string;
  client_message_id: string;
  type: "text";
  content: string;
  metadata: Record<string, unknown> | null;
  status: "delivered" | "read" | "sent";
  created_at: string;
  delivered_at: string | null;
  read_at: string | null;
  blanked: boolean;
}

/** A new message. A message with the same `client_message_id` is stored once, so it is safe to send it again. */
export interface MessageBody {
  client_message_id: string;
  type?: "text";
  content: string;
  metadata?: Record<string, unknown> | null;
}

/** A list without pages: all items, or the requested part. */
export interface MessageList {
  items: Message[];
}

/** The oldest version of the apps on each platform that may be used, such as 1.4.0; null: any version. */
export interface MinimumVersions {
  android: string | null;
  ios: string | null;
  web: string | null;
}

/** A mitra, as they see themselves. */
export interface Mitra {
  id: string;
  phone: string;
  display_name: string;
  is_active: boolean;
  created_at: string;
}

/** The calling mitra's presence, and how many sessions they have and may have. */
export interface MitraStatus {
  is_online: boolean;
  last_online_at: string | null;
  last_heartbeat_at: string | null;
  reachable_at: string | null;
  heartbeat_cadence_seconds: number;
  active_session_count: number;
  max_sessions: number;
}

/** The tokens of a sign-in or refresh, with the mitra. */
export interface MitraTokens {
  access_token: string;
  refresh_token: string;
  token_type: "Bearer";
  expires_in: number;
  mitra: Mitra;
}

/** Flags by which the app chooses its first screen. */
export interface Onboarding {
  is_anonymous: boolean;
  has_display_name: boolean;
  usp_seen: boolean;
  has_consulted_before: boolean;
  first_session_discount_eligible: boolean;
  has_live_session: boolean;
}

/**
 * A session of the snapshot in `auth_ok`, with its pending extension, if any.
 *
 * `peer_absent_since`: since when the other party has given no sign of life; null if they are not absent.
 */
export interface OpenSession {
  id: string;
  customer: Person;
  mitra: Person | null;
  mode: "call" | "chat";
  status: SessionStatus;
  topics: string[] | null;
  topic_sensitivity: Sensitivity;
  duration_minutes: number | null;
  extended_minutes: number;
  price: number;
  is_first_session_discount: boolean;
  created_at: string;
  paired_at: string | null;
  expires_at: string | null;
  ended_at: string | null;
  ended_by: "customer" | "mitra" | "operator" | "timer" | null;
  last_seq: number;
  unread_count: number;
  search: SessionSearch | null;
  grace_ends_at: string | null;
  closures: Closure[];
  extension: Extension | null;
  peer_absent_since?: string | null;
}

/** What an operator has done for the customer. */
export type OperatorAction = "credited" | "no_action" | "refunded";

/** Limits of phone codes that apps need to know. */
export interface OtpConfig {
  resend_cooldown_seconds: number;
  max_per_phone_per_hour: number;
  verify_max_attempts: number;
  code_length: number;
}

/**
 * A payment request for a session; with `is_extension`, for more minutes of `session_id`, in that session's mode. With
 * `first_session_discount` the `duration_minutes` may be left out. With `accept_wait` it is accepted while no mitra is
 * available, too. With `expected_amount`, the price that the customer was shown, another price is refused.
 */
export interface PaymentBody {
  mode?: "call" | "chat" | null;
  duration_minutes?: number | null;
  first_session_discount?: boolean;
  targeted_mitra_id?: string | null;
  is_extension?: boolean;
  session_id?: string | null;
  topics?: string[] | null;
  accept_wait?: boolean;
  expected_amount?: number | null;
}

/**
 * Why a paid request led to no chat, and what an operator has done about it. Fields without a value yet are null.
 * `refund_status` is that of the refund through the gateway, null without one.
 */
export interface PaymentFailure {
  cause_tag: CauseTag;
  operator_action: OperatorAction | null;
  actioned_at: string | null;
  refund_status: RefundStatus | null;
}

/**
 * A request for payment, for a session or for more minutes of one. Amounts are in Rupiah.
 *
 * `promised` is null without an estimate, for a request to one mitra, and for an extension.
 */
export interface PaymentRequest {
  payment_request_id: string;
  status: PaymentStatus;
  mode: "call" | "chat";
  amount: number;
  duration_minutes: number;
  is_first_session_discount: boolean;
  is_extension: boolean;
  targeted_mitra_id: string | null;
  gateway_invoice_url: string | null;
  expires_at: string;
  created_at: string;
  confirmed_at: string | null;
  consumed_at: string | null;
  session_id: string | null;
  failure: PaymentFailure | null;
  promised: PromisedWait | null;
}

/** One page of a list. `next_cursor` is null on the last page. */
export interface PaymentRequestItems {
  items: PaymentRequest[];
  next_cursor: string | null;
}

/** The state of a payment request. */
export type PaymentStatus = "abandoned" | "confirmed" | "consumed" | "expired" | "failed_pairing" | "pending";

/** One party of a session, with the name that the other party may see. */
export interface Person {
  id: string;
  display_name: string | null;
}

/** A phone number, in any common notation. */
export interface PhoneBody {
  phone: string;
}

/** The price list. */
export interface Pricing {
  chat: TierGroup;
  call: TierGroup;
  first_session_discount: FirstSessionDiscount;
}

/** The name that mitras see: 1 to 100 characters after trimming white space. */
export interface ProfileBody {
  display_name: string;
}

/**
 * The wait that was promised at `at`: seconds from the confirmed payment until a mitra accepts.
 *
 * Half of the earlier searches at this time of day took at most `p50`, nine of ten at most `p90`.
 */
export interface PromisedWait {
  p50: number;
  p90: number;
  at: string;
}

/** Whether an identity provider can be used. */
export interface Provider {
  enabled: boolean;
}

/** Which identity providers can be used. */
export interface Providers {
  identity_a: Provider;
  identity_b: Provider;
}

/** The `event_id` of the push by which the user opened the app. */
export interface PushOpenedBody {
  event_id: string;
}

/** The push token of this device. Null ends its pushes. */
export interface PushTokenBody {
  push_token: string | null;
}

/** The caller has read all messages with a `seq` up to this one. */
export interface ReadBody {
  up_to: number;
}

/** What a completed session was: seconds are whole seconds of service time. */
export interface Receipt {
  session_id: string;
  seconds_paid: number;
  seconds_both_could_talk: number;
  seconds_credited: number;
  messages: number;
  digest: string | null;
  completed_at: string;
}

/** A refresh token. */
export interface RefreshBody {
  refresh_token: string;
}

/** The state of a refund. */
export type RefundStatus = "failed" | "pending" | "requested" | "succeeded";

/** A payment request of the caller. */
export interface RequestBody {
  payment_request_id: string;
}

/**
 * A payment request for a chat with a mitra from an earlier session. With `expected_amount`, the price that the
 * customer was shown, another price is refused.
 */
export interface ReturningBody {
  mitra_id: string;
  mode: "call" | "chat";
  duration_minutes: number;
  topics?: string[] | null;
  expected_amount?: number | null;
}

/** How a session's topic is marked. */
export type Sensitivity = "regular" | "sensitive";

/**
 * A chat session as the caller sees it.
 *
 * `unread_count` is that of the caller's side. `search` is set only while the session searches, `grace_ends_at` only
 * while it is expired or closing: the session is completed by then. `closures` has the caller's goodbye, and the other
 * party's once the caller has written one or the session is completed.
 */
export interface Session {
  id: string;
  customer: Person;
  mitra: Person | null;
  mode: "call" | "chat";
  status: SessionStatus;
  topics: string[] | null;
  topic_sensitivity: Sensitivity;
  duration_minutes: number | null;
  extended_minutes: number;
  price: number;
  is_first_session_discount: boolean;
  created_at: string;
  paired_at: string | null;
  expires_at: string | null;
  ended_at: string | null;
  ended_by: "customer" | "mitra" | "operator" | "timer" | null;
  last_seq: number;
  unread_count: number;
  search: SessionSearch | null;
  grace_ends_at: string | null;
  closures: Closure[];
}

/** One page of a list. `next_cursor` is null on the last page. */
export interface SessionItems {
  items: Session[];
  next_cursor: string | null;
}

/**
 * A running search: how many mitras it has asked, the end of its round (`answer_by`), and the end of the search.
 *
 * Use `payment_request_id` to cancel the search or to fall back to a blast.
 */
export interface SessionSearch {
  asked: number;
  answer_by: string;
  ends_at: string;
  payment_request_id: string;
}

/** The state of a session. */
export type SessionStatus = "active" | "cancelled" | "closing" | "completed" | "expired" | "failed" | "searching";

/** A receipt with its signature: Ed25519 over its canonical JSON, in base64url without padding. */
export interface SignedReceipt {
  receipt: Receipt;
  key_id: string;
  signature: string;
}

/** Why a mitra went online or offline. */
export type StatusReason = "deactivated" | "operator" | "self" | "stale";

/** A support contact: the label to show, and the link to open. */
export interface SupportHandle {
  label: string;
  deeplink: string;
}

/** The support contacts, the primary one first. */
export interface SupportHandles {
  handles: SupportHandle[];
}

/** A price: `price_idr` Rupiah for a number of minutes. `tag` is a label to show, such as "popular". */
export interface Tier {
  id: string;
  minutes: number;
  price_idr: number;
  tag: string | null;
}

/** The prices of one mode, in the order to show them. */
export interface TierGroup {
  tiers: Tier[];
}

/** The session's new topic sensitivity. */
export interface TopicBody {
  topic_sensitivity: Sensitivity;
}

/** A payment that was earned with a session or an extension (`type`). `amount` is in Rupiah. */
export interface Transaction {
  id: string;
  type: "extension" | "session";
  amount: number;
  session_id: string;
  created_at: string;
}

/** One page of a list. `next_cursor` is null on the last page. */
export interface TransactionItems {
  items: Transaction[];
  next_cursor: string | null;
}

/** Seconds from the confirmed payment until a mitra accepts. */
export interface TypicalWait {
  p50: number;
  p90: number;
}

/** The user of this socket. */
export interface User {
  id: string;
  type: "customer" | "mitra";
}

/** Accept a chat request as a mitra. The first mitra to accept gets the session. */
export interface AcceptFrame {
  type: "accept";
  session_id: string;
  ref?: string | null;
}

/** The mitra was the first to accept and has the session. */
export interface AcceptedFrame {
  type: "accepted";
  server_time: string;
  ref?: string;
  session: Session;
}

/**
 * Acknowledge an event: this device has it.
 *
 * An id that is unknown, already acknowledged or another user's is ignored, and counts as 5 frames.
 */
export interface AckFrame {
  type: "ack";
  event_id: string;
  ref?: string | null;
}

/**
 * Authenticate the socket: the first frame, within 5 s, and again before the token expires.
 *
 * The answer is `auth_ok`. If the token is not valid, the socket closes with 4401.
 */
export interface AuthFrame {
  type: "auth";
  token: string;
  ref?: string | null;
}

/** The access token expires at `at`, in 60 s. Send `auth` with a new one, or the socket closes with 4401. */
export interface AuthExpiringFrame {
  type: "auth_expiring";
  server_time: string;
  at: string;
}

/**
 * The token is valid; `sessions` are your sessions in `active`, `expired` and `closing`.
 *
 * If a `last_seq` is higher than the one you have, `sync` that session. The socket was subscribed before this snapshot
 * was taken, so no frame is missed between them.
 */
export interface ChatAuthOkFrame {
  type: "auth_ok";
  server_time: string;
  ref?: string;
  user: User;
  connection_id: string;
  epoch: string;
  ping_seconds: number;
  sessions: OpenSession[];
}

/**
 * This mitra can no longer answer a chat request. `taken`: another mitra accepted it. `timeout`: the mitra is not
 * asked again. `accepted` and `rejected`: the mitra has answered on another device.
 */
export interface ChatRequestClosedFrame {
  type: "chat_request_closed";
  server_time: string;
  event_id: string;
  session_id: string;
  topic_sensitivity: Sensitivity;
  reason: "accepted" | "cancelled" | "rejected" | "taken" | "timeout";
}

/**
 * A customer is looking for a mitra. Sent to each mitra who is asked, and again with a later `answer_by` in a new
 * round.
 */
export interface ChatRequestMadeFrame {
  type: "chat_request";
  server_time: string;
  event_id: string;
  request: ChatRequest;
}

/** Mark every message up to `up_to` as received by this device. This acknowledges them. */
export interface DeliveredFrame {
  type: "delivered";
  session_id: string;
  up_to: number;
  ref?: string | null;
}

/** The mitra's token is valid; `requests` are the chat requests that the mitra may answer. */
export interface DeskAuthOkFrame {
  type: "auth_ok";
  server_time: string;
  ref?: string;
  user: User;
  connection_id: string;
  epoch: string;
  ping_seconds: number;
  requests: ChatRequest[];
}

/**
 * A frame was refused; the socket stays open.
 *
 * The codes are those of the REST interface, and two more: `INVALID_FRAME` and `UNKNOWN_TYPE`. After `TOO_FAST` wait
 * `retry_after_seconds`, then send the frames again in the same order. Messages are in the language of the upgrade
 * request. The `ref` is that of the frame, also if it is longer than a frame may have.
 */
export interface ErrorFrame {
  type: "error";
  server_time: string;
  ref?: string;
  code: FrameErrorCode;
  message: string;
  details?: { fields?: { field: string; message: string }[] };
  retry_after_seconds?: number;
}

/** The customer has paid for more minutes. Sent to the mitra, who answers it over REST by `answer_by`. */
export interface ExtensionRequestedFrame {
  type: "extension_requested";
  server_time: string;
  event_id: string;
  extension: Extension;
}

/** An extension was approved or rejected, or the safeguard tripped. Sent to both parties. */
export interface ExtensionResolvedFrame {
  type: "extension_resolved";
  server_time: string;
  event_id: string;
  extension: Extension;
}

/**
 * Report that the mitra's app is still connected. Every other frame from a mitra counts as well.
 *
 * It is answered only if the mitra is offline: by the error `MITRA_OFFLINE`.
 */
export interface HeartbeatFrame {
  type: "heartbeat";
  ref?: string | null;
}

/** Your message is committed. A repeat of its `client_message_id` gets the same answer. */
export interface MessageAckFrame {
  type: "message_ack";
  server_time: string;
  ref?: string;
  client_message_id: string;
  id: string;
  seq: number;
  created_at: string;
}

/**
 * Every message up to `up_to` was delivered or read. Sent to the other party. `read` is also sent to the reader's own
 * other devices, so that they show the messages as read.
 */
export interface MessageStatusFrame {
  type: "message_status";
  server_time: string;
  session_id: string;
  status: "delivered" | "read";
  up_to: number;
  at: string;
}

/**
 * The mitra went online or offline. `self`: on one of the mitra's devices; this one is not stored and has no
 * `event_id`. All others are stored until acknowledged or replaced by a newer one. `stale`: there was no heartbeat for
 * too long. `deactivated`: the sockets close with 4403.
 */
export interface MitraStatusChangedFrame {
  type: "mitra_status_changed";
  server_time: string;
  event_id?: string;
  is_online: boolean;
  reason: StatusReason;
}

/**
 * A new message in a session. Sent to every connection of both parties except the one that sent it, in the order of
 * `seq`. Acknowledge it by `delivered` or `read`, not by `ack`. If one is lost, `sync` returns it.
 */
export interface NewMessageFrame {
  type: "message";
  server_time: string;
  event_id: string;
  message: Message;
}

/**
 * The status of the customer's search. `asked`, the number of mitras asked so far, is present with `searching`;
 * `cause_tag` with `failed` and `cancelled`; `mitra` with `paired`. `session_id` is null if the request ended before
 * it had a session. When more mitras are asked, `searching` is sent again, at most every 2 s. These repeats have no
 * `event_id`, need no acknowledgement and may be lost: keep the larger number.
 */
export type PairingStatusFrame =
  | {
      type: "pairing_status";
      server_time: string;
      event_id?: string;
      payment_request_id: string;
      session_id: string | null;
      status: "searching";
      topic_sensitivity: Sensitivity;
      asked: number;
    }
  | {
      type: "pairing_status";
      server_time: string;
      event_id?: string;
      payment_request_id: string;
      session_id: string | null;
      status: "paired";
      topic_sensitivity: Sensitivity;
      mitra: Person;
    }
  | {
      type: "pairing_status";
      server_time: string;
      event_id?: string;
      payment_request_id: string;
      session_id: string | null;
      status: "failed";
      topic_sensitivity: Sensitivity;
      cause_tag: CauseTag;
    }
  | {
      type: "pairing_status";
      server_time: string;
      event_id?: string;
      payment_request_id: string;
      session_id: string | null;
      status: "cancelled";
      topic_sensitivity: Sensitivity;
      cause_tag: CauseTag;
    };

/** The other party started or stopped typing. This frame may be lost, so show it for some seconds only. */
export interface PartyTypingFrame {
  type: "typing";
  server_time: string;
  session_id: string;
  is_typing: boolean;
}

/**
 * A payment request of the customer has changed in a way that no other event reports: an extension was paid, a request
 * expired or was abandoned on another device, money came too late or led to no chat, or an operator acted. The ids of
 * one request's events increase in the order of its changes.
 */
export interface PaymentUpdatedFrame {
  type: "payment_updated";
  server_time: string;
  event_id: string;
  payment_request: PaymentRequest;
}

/**
 * The other party, `user_type`, has given no sign of life on any device since `since`, for longer than the
 * configuration row `peer_absent_seconds`. Sent to the party who is left.
 */
export interface PeerAbsentFrame {
  type: "peer_absent";
  server_time: string;
  event_id: string;
  session_id: string;
  user_type: "customer" | "mitra";
  since: string;
}

/** The other party has another name now, in an open session. Sent when a party's name changes. */
export interface PeerRenamedFrame {
  type: "peer_renamed";
  server_time: string;
  event_id: string;
  session_id: string;
  display_name: string;
}

/** The other party, `user_type`, is back. Sent to the party who got `peer_absent`. */
export interface PeerReturnedFrame {
  type: "peer_returned";
  server_time: string;
  event_id: string;
  session_id: string;
  user_type: "customer" | "mitra";
}

/**
 * Check that the service answers; the answer is `pong`.
 *
 * Client libraries answer the protocol's own pings by themselves. This frame is for checks by the app.
 */
export interface PingFrame {
  type: "ping";
  ref?: string | null;
}

/** The answer to `ping`. */
export interface PongFrame {
  type: "pong";
  server_time: string;
  ref?: string;
}

/** Mark every message up to `up_to` as read by the user. This acknowledges them. */
export interface ReadFrame {
  type: "read";
  session_id: string;
  up_to: number;
  ref?: string | null;
}

/** Decline a chat request as a mitra. The mitra's devices get `chat_request_closed`. */
export interface RejectFrame {
  type: "reject";
  session_id: string;
  ref?: string | null;
}

/** The customer's token is valid; `searching` is the running search, or null. */
export interface SearchAuthOkFrame {
  type: "auth_ok";
  server_time: string;
  ref?: string;
  user: User;
  connection_id: string;
  epoch: string;
  ping_seconds: number;
  searching: Session | null;
}

/**
 * Send a message of 1 to 4,000 characters, with up to 4,096 bytes of metadata.
 *
 * `message_ack` answers it once it is committed. One sender's `client_message_id` is stored once, so repeat an
 * unacknowledged message unchanged.
 *
 * `TOO_FAST` means that you are over the rate limit of messages. Stop sending messages to that session, wait
 * `retry_after_seconds`, then send the refused ones again in the same order, starting with the first. Later messages
 * are refused until that one has arrived.
 */
export interface SendMessageFrame {
  type: "send_message";
  session_id: string;
  client_message_id: string;
  content: string;
  message_type?: "text";
  metadata?: Record<string, unknown> | null;
  ref?: string | null;
}

/**
 * The session got paid time back: `session.expires_at` is later by `added_seconds`. Sent to both parties.
 *
 * The time was lost in an outage of the `database` or `realtime` processes, or because the mitra was away. An expired
 * session may be active again.
 */
export interface SessionClockAdjustedFrame {
  type: "session_clock_adjusted";
  server_time: string;
  event_id: string;
  session: Session;
  added_seconds: number;
  reason: CreditReason;
}

/** A party or an operator has ended the session, and both parties may write a goodbye. Sent to both parties. */
export interface SessionClosingFrame {
  type: "session_closing";
  server_time: string;
  event_id: string;
  session: Session;
}

/** The session is completed: both goodbyes were written, or the grace period is over. Sent to both parties. */
export interface SessionCompletedFrame {
  type: "session_completed";
  server_time: string;
  event_id: string;
  session: Session;
}

/**
 * The paid time is over.
 *
 * No more messages can be sent; an extension or a goodbye is possible. Sent to both parties.
 */
export interface SessionExpiredFrame {
  type: "session_expired";
  server_time: string;
  event_id: string;
  session: Session;
}

/** An extension was approved, and the session continues until its new `expires_at`. Sent to both parties. */
export interface SessionResumedFrame {
  type: "session_resumed";
  server_time: string;
  event_id: string;
  session: Session;
  extension_id: string;
}

/** A mitra has accepted, and the paid time has started. Sent to both parties. */
export interface SessionStartedFrame {
  type: "session_started";
  server_time: string;
  event_id: string;
  session: Session;
}

/** The mitra has changed the sensitivity of the topic. Sent to both parties. */
export interface SessionTopicUpdatedFrame {
  type: "session_topic_updated";
  server_time: string;
  event_id: string;
  session_id: string;
  topic_sensitivity: Sensitivity;
}

/** Three minutes of the paid time are left. Sent once for each `expires_at`, to both parties. */
export interface SessionWarningFrame {
  type: "session_warning";
  server_time: string;
  event_id: string;
  session_id: string;
  seconds_left: 180;
  expires_at: string;
}

/**
 * Request the messages after a `seq`. Send it after each `auth_ok`, and when a `seq` is missing.
 *
 * Over the rate limit of frames the answer is `TOO_FAST` with `retry_after_seconds`; the socket stays open.
 */
export interface SyncFrame {
  type: "sync";
  session_id: string;
  after: number;
  ref?: string | null;
}

/**
 * The messages after a `seq`, ascending, at most 200. If `more` is true, `sync` again after the last one.
 *
 * `digest` is the chat's digest up to the last message of this frame, or up to `after` if there is none. It is null if
 * the session is `blanked`, if `after` is above the last `seq`, and for a part of a long chat that was not hashed yet.
 */
export interface SyncPageFrame {
  type: "sync";
  server_time: string;
  ref?: string;
  session_id: string;
  messages: Message[];
  last_seq: number;
  more: boolean;
  epoch: string;
  digest: string | null;
  blanked: boolean;
}

/** Show the other party that the user started or stopped typing. */
export interface TypingFrame {
  type: "typing";
  session_id: string;
  is_typing: boolean;
  ref?: string | null;
}

/** The code of a refusal, by REST or on a socket. */
export type Code =
  | ErrorCode
  | FrameErrorCode;

/** What a client sends on `/ws/chat`. */
export type ChatClientFrame =
  | AckFrame
  | AuthFrame
  | DeliveredFrame
  | PingFrame
  | ReadFrame
  | SendMessageFrame
  | SyncFrame
  | TypingFrame;

/** What the service sends to a customer on `/ws/chat`. */
export type ChatCustomerFrame =
  | AuthExpiringFrame
  | ChatAuthOkFrame
  | ErrorFrame
  | ExtensionResolvedFrame
  | MessageAckFrame
  | MessageStatusFrame
  | NewMessageFrame
  | PartyTypingFrame
  | PeerAbsentFrame
  | PeerRenamedFrame
  | PeerReturnedFrame
  | PongFrame
  | SessionClockAdjustedFrame
  | SessionClosingFrame
  | SessionCompletedFrame
  | SessionExpiredFrame
  | SessionResumedFrame
  | SessionStartedFrame
  | SessionTopicUpdatedFrame
  | SessionWarningFrame
  | SyncPageFrame;

/** What the service sends to a mitra on `/ws/chat`. */
export type ChatMitraFrame =
  | AuthExpiringFrame
  | ChatAuthOkFrame
  | ErrorFrame
  | ExtensionRequestedFrame
  | ExtensionResolvedFrame
  | MessageAckFrame
  | MessageStatusFrame
  | NewMessageFrame
  | PartyTypingFrame
  | PeerAbsentFrame
  | PeerRenamedFrame
  | PeerReturnedFrame
  | PongFrame
  | SessionClockAdjustedFrame
  | SessionClosingFrame
  | SessionCompletedFrame
  | SessionExpiredFrame
  | SessionResumedFrame
  | SessionStartedFrame
  | SessionTopicUpdatedFrame
  | SessionWarningFrame
  | SyncPageFrame;

/** What a client sends on `/ws/pairing`. */
export type PairingClientFrame =
  | AcceptFrame
  | AckFrame
  | AuthFrame
  | HeartbeatFrame
  | PingFrame
  | RejectFrame;

/** What the service sends to a customer on `/ws/pairing`. */
export type PairingCustomerFrame =
  | AuthExpiringFrame
  | ErrorFrame
  | PairingStatusFrame
  | PaymentUpdatedFrame
  | PongFrame
  | SearchAuthOkFrame;

/** What the service sends to a mitra on `/ws/pairing`. */
export type PairingMitraFrame =
  | AcceptedFrame
  | AuthExpiringFrame
  | ChatRequestClosedFrame
  | ChatRequestMadeFrame
  | DeskAuthOkFrame
  | ErrorFrame
  | MitraStatusChangedFrame
  | PongFrame;

/** What a client sends. */
export type ClientFrame =
  | ChatClientFrame
  | PairingClientFrame;

/** What the service sends to a customer. */
export type CustomerFrame =
  | ChatCustomerFrame
  | PairingCustomerFrame;

/** What the service sends to a mitra. */
export type MitraFrame =
  | ChatMitraFrame
  | PairingMitraFrame;

/** What the service sends. */
export type ServerFrame =
  | CustomerFrame
  | MitraFrame;

/**
 * The routes that apps call. `path` has the ids of the path, `query` and `body` what the route takes, `answer` the body
 * of a successful answer, null without one. `idempotent` routes take an `Idempotency-Key`.
 */
export interface Routes {
  /** Return the public keys of receipts as a JWK set (RFC 7517), also those that no longer sign. */
  "GET /.well-known/sesi-receipts.json": { answer: JwkSet };
  /** Sign in as a customer with identity provider A. */
  "POST /api/client/auth/identity-a": { body: IdentityBody; answer: CustomerTokens; idempotent: true };
  /** Sign in as a customer with identity provider B. */
  "POST /api/client/auth/identity-b": { body: IdentityBody; answer: CustomerTokens; idempotent: true };
  /** Return the calling customer. */
  "GET /api/client/auth/me": { answer: Customer };
  /** Erase the caller's personal data and sign all their devices out. */
  "POST /api/client/auth/me/erase": { body: EraseBody; answer: Erasure };
  /** Return everything that is stored of the caller. */
  "GET /api/client/auth/me/export": { answer: Export };
  /** Send a phone code to a customer. */
  "POST /api/client/auth/otp/request": { body: PhoneBody; answer: CodeRequest };
  /** Sign in as a customer with a phone code. */
  "POST /api/client/auth/otp/verify": { body: CodeBody; answer: CustomerTokens; idempotent: true };
  /** Set the caller's display name. */
  "PATCH /api/client/auth/profile": { body: ProfileBody; answer: Customer };
  /** Cancel a payment request or its search. */
  "POST /api/client/chat/cancel": { body: RequestBody; answer: PaymentRequest };
  /** Turn a targeted request into a blast, which asks all eligible mitras. */
  "POST /api/client/chat/fallback-to-blast": { body: RequestBody; answer: PaymentRequest };
  /** List the mitras of the caller's past sessions, the most recent first. */
  "GET /api/client/chat/history": { query: { cursor?: string; limit?: number }; answer: ChatHistoryRowItems };
  /** Return the price list, with the caller's eligibility for the first-session discount. */
  "GET /api/client/chat/pricing": { answer: Pricing };
  /** Create a payment request for a chat with a mitra from an earlier session. */
  "POST /api/client/chat/returning": { body: ReturningBody; answer: PaymentRequest; idempotent: true };
  /** Return the caller's running session with its unread count, and the running search. */
  "GET /api/client/chat/session/active-with-unread": { answer: ActiveSession };
  /** List the caller's sessions, newest first. */
  "GET /api/client/chat/sessions": { query: { mitra_id?: string; status?: string; cursor?: string; limit?: number }; answer: SessionItems };
  /** Return how many mitras could take a chat request now, and how long customers usually wait for one. */
  "GET /api/client/mitras/availability": { answer: Available };
  /** Return the flags by which the app chooses its first screen. */
  "GET /api/client/onboarding-state": { answer: Onboarding };
  /** Create a payment request. */
  "POST /api/client/payment/requests": { body: PaymentBody; answer: PaymentRequest; idempotent: true };
  /** List the caller's payment requests with their outcomes, newest first. */
  "GET /api/client/payment/requests": { query: { cursor?: string; limit?: number }; answer: PaymentRequestItems };
  /** Return a payment request of the caller. */
  "GET /api/client/payment/requests/{request_id}": { path: { request_id: string }; answer: PaymentRequest };
  /** Abandon a pending payment request. */
  "POST /api/client/payment/requests/{request_id}/abandon": { path: { request_id: string }; answer: PaymentRequest };
  /** Return the support contacts. */
  "GET /api/client/support-handles": { answer: SupportHandles };
  /** List what the caller's sessions and extensions have cost, newest first. */
  "GET /api/client/transactions": { query: { cursor?: string; limit?: number }; answer: TransactionItems };
  /** Record that the caller has seen the introduction. */
  "POST /api/client/usp-seen": { answer: null };
  /** Return the calling mitra. */
  "GET /api/mitra/auth/me": { answer: Mitra };
  /** Send a phone code to a mitra. */
  "POST /api/mitra/auth/otp/request": { body: PhoneBody; answer: CodeRequest };
  /** Sign in as a mitra with a phone code. */
  "POST /api/mitra/auth/otp/verify": { body: CodeBody; answer: MitraTokens };
  /** List the chat requests that are open to the caller, newest first. */
  "GET /api/mitra/chat-requests": { answer: ChatRequestItems };
  /** List the caller's running sessions with their unread counts. */
  "GET /api/mitra/chat-requests/sessions/active-with-unread": { answer: SessionItems };
  /** Accept a chat request. */
  "POST /api/mitra/chat-requests/{session_id}/accept": { path: { session_id: string }; answer: Session };
  /** Reject a chat request. */
  "POST /api/mitra/chat-requests/{session_id}/reject": { path: { session_id: string }; answer: null };
  /** List the caller's sessions, newest first. */
  "GET /api/mitra/chat/history": { query: { cursor?: string; limit?: number }; answer: SessionItems };
  /** Return the caller's presence and number of sessions. */
  "GET /api/mitra/status": { answer: MitraStatus };
  /** Record a heartbeat of the caller's app. */
  "POST /api/mitra/status/heartbeat": { answer: MitraStatus };
  /** Go offline, to get no more chat requests. */
  "POST /api/mitra/status/offline": { answer: MitraStatus };
  /** Go online, to get chat requests. */
  "POST /api/mitra/status/online": { answer: MitraStatus };
  /** Return which identity providers can be used. */
  "GET /api/shared/auth-providers": { answer: Providers };
  /** Sign in as a new anonymous customer. */
  "POST /api/shared/auth/anonymous": { answer: CustomerTokens };
  /** Sign out on this device. */
  "POST /api/shared/auth/logout": { answer: null };
  /** Get new tokens for a refresh token. */
  "POST /api/shared/auth/refresh": { body: RefreshBody; answer: CustomerTokens | MitraTokens };
  /** List the devices on which the caller is signed in, newest first. */
  "GET /api/shared/auth/sessions": { query: { cursor?: string; limit?: number }; answer: DeviceItems };
  /** Sign out one of the caller's devices. */
  "DELETE /api/shared/auth/sessions/{auth_session_id}": { path: { auth_session_id: string }; answer: Device };
  /** Return a session of the caller. */
  "GET /api/shared/chat/sessions/{session_id}": { path: { session_id: string }; answer: Session };
  /** Say goodbye. */
  "POST /api/shared/chat/sessions/{session_id}/closure": { path: { session_id: string }; body: ClosureBody; answer: Session };
  /** End the session. */
  "POST /api/shared/chat/sessions/{session_id}/end": { path: { session_id: string }; answer: Session };
  /** Ask the mitra for a paid extension. */
  "POST /api/shared/chat/sessions/{session_id}/extensions": { path: { session_id: string }; body: AskBody; answer: Extension; idempotent: true };
  /** Accept or reject an extension. */
  "POST /api/shared/chat/sessions/{session_id}/extensions/{extension_id}/answer": { path: { session_id: string; extension_id: string }; body: AnswerBody; answer: Extension };
  /** List a part of the session's messages, by ascending `seq`. */
  "GET /api/shared/chat/sessions/{session_id}/messages": { path: { session_id: string }; query: { after?: number; before?: number; limit?: number }; answer: MessageList };
  /** Send a message. */
  "POST /api/shared/chat/sessions/{session_id}/messages": { path: { session_id: string }; body: MessageBody; answer: Message };
  /** Mark the messages up to a `seq` as read. */
  "POST /api/shared/chat/sessions/{session_id}/read": { path: { session_id: string }; body: ReadBody; answer: null };
  /** Return the signed receipt of a completed session. */
  "GET /api/shared/chat/sessions/{session_id}/receipt": { path: { session_id: string }; answer: SignedReceipt };
  /** Set the session's topic sensitivity. */
  "PATCH /api/shared/chat/sessions/{session_id}/topic": { path: { session_id: string }; body: TopicBody; answer: Session };
  /** Return the switches that change how apps behave, the oldest usable versions, and the maintenance notice. */
  "GET /api/shared/config/app": { answer: AppConfig };
  /** Return the limits of phone codes. */
  "GET /api/shared/config/otp": { answer: OtpConfig };
  /** Report that the user opened the app by a push. */
  "POST /api/shared/push-opened": { body: PushOpenedBody; answer: null };
  /** Register this device for pushes. */
  "PUT /api/shared/push-token": { body: PushTokenBody; answer: null };
}
