import { ANONYMOUS } from "./account.js";
import { Device } from "./device.js";
import { checkContent } from "./outbox.js";
import { verifyReceipt } from "./receipts.js";

/** @import { Account, DeviceOptions, FrameListener, Locale, RouteArguments, Routes, State } from "./types.d.ts" */
/** @import { Block, BlockItems, CodeRequest, EraseBody, Export, Extension, PaymentBody, PaymentRequest } from "./types.d.ts" */
/** @import { Report, ReportBody, ReturningBody, Sensitivity, Session, SignedReceipt } from "./types.d.ts" */

const PAY = "POST /api/client/payment/requests";
const RETURN = "POST /api/client/chat/returning";
const RECEIPT_KEYS = "GET /.well-known/sesi-receipts.json";
const SESSION = "/api/shared/chat/sessions/{session_id}";

/** One device of one user. Every method that returns a promise of an answer raises SesiError. */
export class Client {
  #device;

  /** @param {DeviceOptions} options */
  constructor(options) {
    this.#device = new Device(options);
    // Frameworks take them as functions: useSyncExternalStore(client.subscribe, () => client.state).
    this.subscribe = this.subscribe.bind(this);
    this.on = this.on.bind(this);
  }

  /** What an app shows; a new frozen object after each change. */
  get state() {
    return this.#device.state;
  }

  /**
   * Call `listener` after changes of the state, once a microtask. Return a function that ends it.
   * @param {(state: State) => void} listener
   * @returns {() => void}
   */
  subscribe(listener) {
    return this.#device.subscribe(listener);
  }

  /**
   * Call `listener` with each new frame of the service that an app may show. Return a function that ends it.
   * @param {FrameListener} listener
   * @returns {() => void}
   */
  on(listener) {
    const { listeners } = this.#device;
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  /** Read the stored sign-in, and connect if there is one. Connects again what a newer device has replaced. */
  async start() {
    await this.#device.start();
  }

  /** Disconnect. The sign-in and unsent messages stay stored. */
  async stop() {
    this.#device.stop();
  }

  /**
   * Call a route of the public listener, such as `GET /api/client/chat/history`.
   * @template {keyof Routes} R
   * @param {R} route
   * @param {RouteArguments<R>} options path, query, body and `idempotencyKey`
   * @returns {Promise<Routes[R]["answer"]>}
   */
  call(route, ...[options]) {
    return this.#device.account.call(route, options);
  }

  /** Return the service's time in milliseconds since 1970. */
  now() {
    return this.#device.clock.now();
  }

  /**
   * Return the service seconds until `time`, 0 for null and past times.
   * @param {string | null} time
   */
  secondsUntil(time) {
    return time === null ? 0 : Math.max(0, (Date.parse(time) - this.now()) / 1000);
  }

  /**
   * Run `callback` when the service's clock reaches `time`. Return a function that cancels it.
   * @param {string} time
   * @param {() => void} callback
   * @returns {() => void}
   */
  after(time, callback) {
    return this.#device.clock.after(Date.parse(time), callback);
  }

  /**
   * Set the language of error messages, and of pushes from the next refresh on.
   * @param {Locale} locale
   */
  setLocale(locale) {
    this.#device.locale = locale;
  }

  /**
   * Report that the user opened the app by a push, with the `event_id` of the push. Pushes about messages need no report.
   * @param {string} eventId
   */
  async pushOpened(eventId) {
    await this.call("POST /api/shared/push-opened", { body: { event_id: eventId } });
  }

  /** Sign in as a new anonymous customer. */
  signInAnonymously() {
    return this.#device.account.signIn(ANONYMOUS);
  }

  /**
   * Have a code sent to a phone. The service knows a customer by their token, so its budget of codes does not refuse them.
   * @param {string} phone
   * @returns {Promise<CodeRequest>}
   */
  requestCode(phone) {
    const token = this.#device.tokens.current?.access;
    return this.#device.rest.once(`POST ${this.#auth}/otp/request`, { body: { phone } }, token);
  }

  /**
   * Sign in with the code that was sent to a phone. An anonymous customer keeps what they have.
   * @param {string} otpRequestId
   * @param {string} code
   */
  verifyCode(otpRequestId, code) {
    // Not repeated: a code works once.
    return this.#device.account.signIn(`POST ${this.#auth}/otp/verify`, { otp_request_id: otpRequestId, code }, true);
  }

  /**
   * Sign in with an identity provider's token. An anonymous customer keeps what they have.
   * @param {"a" | "b"} provider
   * @param {string} identityToken
   * @param {string | null} [nonce]
   */
  signInWithIdentity(provider, identityToken, nonce = null) {
    const body = { identity_token: identityToken, nonce };
    return this.#device.account.signIn(`POST /api/client/auth/identity-${provider}`, body);
  }

  /**
   * Link an identity to the customer's account, within 10 minutes after a sign-in. It replaces another one of the
   * provider.
   * @param {"a" | "b"} provider
   * @param {string} identityToken
   * @param {string | null} [nonce]
   */
  linkIdentity(provider, identityToken, nonce = null) {
    const body = { identity_token: identityToken, nonce };
    return this.#device.account.ask(`POST /api/client/auth/link/identity-${provider}`, { body });
  }

  /**
   * Unlink an identity, within 10 minutes after a sign-in. The last way to sign in stays.
   * @param {"a" | "b"} provider
   */
  async unlinkIdentity(provider) {
    await this.#device.account.call(`DELETE /api/client/auth/link/identity-${provider}`);
    return this.refreshUser();
  }

  /**
   * Link a phone with the code that `requestCode` has sent to it, within 10 minutes after a sign-in. A phone that
   * replaces another one signs all other devices out.
   * @param {string} otpRequestId
   * @param {string} code
   */
  linkPhone(otpRequestId, code) {
    const body = { otp_request_id: otpRequestId, code };
    return this.#device.account.ask("POST /api/client/auth/link/phone", { body }, true); // a code works once
  }

  /** Sign out and forget everything on this device, also without a network. */
  signOut() {
    return this.#device.account.signOut();
  }

  /**
   * Erase the account, sign out everywhere and forget everything on this device. This can't be undone. The proof is a
   * code to the phone or a new token of the identity; an anonymous customer sends none.
   * @param {EraseBody} [proof]
   * @returns {Promise<void>}
   */
  eraseAccount(proof = {}) {
    return this.#device.account.erase(proof);
  }

  /**
   * Return everything that the service stores of the customer: within 10 minutes after a sign-in, once an hour.
   * @returns {Promise<Export>}
   */
  exportData() {
    // Not repeated: the next export would come in an hour.
    return this.#device.account.call("GET /api/client/auth/me/export", {}, true);
  }

  /**
   * Read the user again.
   * @returns {Promise<Account>}
   */
  refreshUser() {
    return this.#device.account.ask(`GET ${this.#auth}/me`);
  }

  /**
   * Set the customer's name.
   * @param {string} name
   * @returns {Promise<Account>}
   */
  setDisplayName(name) {
    return this.#device.account.ask("PATCH /api/client/auth/profile", { body: { display_name: name } });
  }

  /**
   * Make a payment request. Repeated with the same body until there is an answer, it is made once.
   * @param {PaymentBody} body
   */
  pay(body) {
    return this.#device.payments.make(PAY, body);
  }

  /**
   * Make a payment request for a mitra of an earlier session.
   * @param {ReturningBody} body
   */
  payReturning(body) {
    return this.#device.payments.make(RETURN, body);
  }

  /** @param {string} id */
  readPayment(id) {
    return this.#device.payments.read(id);
  }

  /** @param {string} id */
  abandonPayment(id) {
    return this.#device.payments.ask(`${PAY}/{request_id}/abandon`, { path: { request_id: id } });
  }

  /** @param {string} paymentRequestId */
  cancelSearch(paymentRequestId) {
    return this.#search("cancel", paymentRequestId);
  }

  /**
   * Ask all mitras instead of the one who was chosen.
   * @param {string} paymentRequestId
   */
  fallBackToBlast(paymentRequestId) {
    return this.#search("fallback-to-blast", paymentRequestId);
  }

  /**
   * Ask another mitra of the history, with the money of a request that the chosen one did not accept. Refused with
   * `FAILURE_ACTIONED` when an operator has acted on the failure or a refund runs.
   * @param {string} paymentRequestId
   * @param {string} mitraId
   */
  retarget(paymentRequestId, mitraId) {
    const body = { payment_request_id: paymentRequestId, mitra_id: mitraId };
    return this.#device.payments.make("POST /api/client/chat/retarget", body);
  }

  /**
   * Read a session and the end of its transcript into `state.chats`.
   * @param {string} sessionId
   */
  openChat(sessionId) {
    return this.#device.chats.open(sessionId);
  }

  /**
   * Read 50 earlier messages of an open chat.
   * @param {string} sessionId
   */
  loadEarlier(sessionId) {
    return this.#device.chats.loadEarlier(sessionId);
  }

  /**
   * Send a message, now or as soon as there is a connection, and return its `clientMessageId`. Throws a SesiError
   * `VALIDATION_ERROR` at once if the service would refuse its length or a control character.
   * @param {string} sessionId
   * @param {string} content 1 to 4,000 characters
   * @param {Record<string, unknown> | null} [metadata]
   */
  send(sessionId, content, metadata = null) {
    checkContent(content);
    const id = this.#device.ports.id();
    void this.#device.outbox.add({ id, sessionId, content, metadata, refusal: null });
    return id;
  }

  /**
   * Send a refused message again.
   * @param {string} clientMessageId
   */
  resend(clientMessageId) {
    this.#device.outbox.retry(clientMessageId);
  }

  /**
   * Give a refused message up.
   * @param {string} clientMessageId
   */
  discard(clientMessageId) {
    this.#device.outbox.take(clientMessageId);
  }

  /**
   * Mark everything that is shown as read.
   * @param {string} sessionId
   */
  markRead(sessionId) {
    this.#device.ephemeral.markRead(sessionId);
  }

  /**
   * Let the other party see that the user types. Call it on each key; it is sent once in 3 s.
   * @param {string} sessionId
   */
  typing(sessionId) {
    this.#device.ephemeral.typing(sessionId);
  }

  /**
   * End a session.
   * @param {string} sessionId
   */
  end(sessionId) {
    return this.#device.chats.act(`POST ${SESSION}/end`, sessionId);
  }

  /**
   * Write the goodbye.
   * @param {string} sessionId
   * @param {string} message 1 to 1,000 characters
   */
  sayGoodbye(sessionId, message) {
    return this.#device.chats.act(`POST ${SESSION}/closure`, sessionId, { message });
  }

  /**
   * Report the other party of a session to the operators, also after its end. Each party can do it once.
   * @param {string} sessionId
   * @param {ReportBody["reason"]} reason
   * @param {string | null} [message] up to 1,000 characters
   * @returns {Promise<Report>}
   */
  report(sessionId, reason, message = null) {
    return this.call(`POST ${SESSION}/report`, { path: { session_id: sessionId }, body: { reason, message } });
  }

  /**
   * Block the other party of a session: the two are never paired again. A running chat goes on, and the other party
   * gets no event.
   * @param {string} sessionId
   * @returns {Promise<Block>}
   */
  block(sessionId) {
    return this.call(`POST ${SESSION}/block`, { path: { session_id: sessionId } });
  }

  /**
   * Lift the user's block of the other party, by any session of the two.
   * @param {string} sessionId
   */
  async unblock(sessionId) {
    await this.call(`DELETE ${SESSION}/block`, { path: { session_id: sessionId } });
  }

  /**
   * Return a page of the blocks that the user has made, newest first.
   * @param {string | null} [cursor] `next_cursor` of the page before
   * @returns {Promise<BlockItems>}
   */
  blocks(cursor = null) {
    return this.call("GET /api/shared/blocks", { query: cursor === null ? {} : { cursor } });
  }

  /**
   * Return the signed receipt of a completed session.
   * @param {string} sessionId
   * @returns {Promise<SignedReceipt>}
   */
  receipt(sessionId) {
    return this.call(`GET ${SESSION}/receipt`, { path: { session_id: sessionId } });
  }

  /**
   * Return whether the service's published keys verify a receipt; null if this platform can't tell.
   * @param {SignedReceipt} receipt
   */
  async verifyReceipt(receipt) {
    return verifyReceipt(receipt, await this.call(RECEIPT_KEYS));
  }

  /**
   * Set whether the topic is sensitive.
   * @param {string} sessionId
   * @param {Sensitivity} sensitivity
   */
  setTopic(sessionId, sensitivity) {
    return this.#device.chats.act(`PATCH ${SESSION}/topic`, sessionId, { topic_sensitivity: sensitivity });
  }

  /**
   * Make a payment request for more minutes of a session.
   * @param {string} sessionId
   * @param {number} durationMinutes
   * @param {number} [expectedAmount] the price that the customer was shown; another one is refused
   */
  extend(sessionId, durationMinutes, expectedAmount) {
    const shown = expectedAmount === undefined ? {} : { expected_amount: expectedAmount };
    return this.pay({ is_extension: true, session_id: sessionId, duration_minutes: durationMinutes, ...shown });
  }

  /**
   * Answer a customer who asks for more minutes.
   * @param {string} sessionId
   * @param {string} extensionId
   * @param {boolean} accept
   * @returns {Promise<Extension>}
   */
  answerExtension(sessionId, extensionId, accept) {
    return this.#device.chats.answerExtension(sessionId, extensionId, accept);
  }

  /** Let chat requests come, and send heartbeats. */
  goOnline() {
    return this.#device.presence.change("online");
  }

  /** Let no more chat requests come. */
  goOffline() {
    return this.#device.presence.change("offline");
  }

  /**
   * Give the library a push that has arrived, also without `start`. Return false if it is for the user, who opens what
   * its `action` names. Return true if it was for the app only: a presence check. By then a heartbeat has answered it,
   * or its time is over.
   * @param {Record<string, unknown>} push the data of the push
   * @returns {Promise<boolean>}
   */
  receivePush(push) {
    return this.#device.presence.answer(push);
  }

  /**
   * Accept a chat request. The first mitra to accept has the session.
   * @param {string} sessionId
   * @returns {Promise<Session>}
   */
  async accept(sessionId) {
    const session = await this.#device.requests.accept(sessionId);
    this.#device.chats.learn(session);
    return session;
  }

  /**
   * Reject a chat request.
   * @param {string} sessionId
   */
  reject(sessionId) {
    return this.#device.requests.reject(sessionId);
  }

  /** @returns {"/api/mitra/auth" | "/api/client/auth"} */
  get #auth() {
    return this.#device.role === "mitra" ? "/api/mitra/auth" : "/api/client/auth";
  }

  /**
   * @param {"cancel" | "fallback-to-blast"} action
   * @param {string} id
   */
  #search(action, id) {
    return this.#device.payments.ask(`POST /api/client/chat/${action}`, { body: { payment_request_id: id } });
  }
}
