import { ignoreRefusal } from "./errors.js";
import { isTransient } from "./rest.js";

/** @import { PaymentRequest } from "./types.d.ts" */

const POLL_MS = 4000;
const FIELDS = ["payment_request_id", "status"];

/** The payment requests that were made, read or reported on this device. */
export class Payments {
  #device;
  /** @type {unknown} */
  #poll = null;

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
  }

  /** Forget the key of a payment without an answer. */
  async forgetKey() {
    await this.#device.values.remove(this.#key);
  }

  /**
   * Make a payment request. The same wish has the same idempotency key until there is an answer. Raises SesiError.
   * @param {string} route
   * @param {object} body
   * @returns {Promise<PaymentRequest>}
   */
  async make(route, body) {
    const { values, ports, account } = this.#device;
    const key = this.#key;
    const wish = JSON.stringify([route, body]);
    const stored = await values.get(key);
    const isRepeat = stored?.wish === wish;
    const idempotencyKey = isRepeat ? stored.idempotencyKey : ports.id();
    await values.set(key, { wish, idempotencyKey });
    let request;
    try {
      request = await account.call(route, { body, idempotencyKey, fields: FIELDS });
    } catch (error) {
      if (!isTransient(error)) await values.remove(key);
      throw error;
    }
    await values.remove(key);
    this.keep(request);
    return isRepeat ? this.read(request.payment_request_id) : request; // a repeated answer may be old
  }

  /**
   * Read a request. Raises SesiError.
   * @param {string} id
   */
  read(id) {
    return this.ask("GET /api/client/payment/requests/{request_id}", { path: { request_id: id } });
  }

  /**
   * Call a route whose answer is a payment request. Raises SesiError.
   * @param {string} route
   * @param {import("./types.d.ts").CallOptions} options
   * @returns {Promise<PaymentRequest>}
   */
  async ask(route, options) {
    const request = await this.#device.account.call(route, { ...options, fields: FIELDS });
    this.keep(request);
    return request;
  }

  /**
   * Read a request that is known, because an event has changed it.
   * @param {string} id
   */
  async refresh(id) {
    if (this.#device.state.payments[id]) await this.read(id).catch(ignoreRefusal);
  }

  /** Read the pending requests, because an event may have been missed. */
  async refreshPending() {
    await Promise.all(this.#pending().map(({ payment_request_id: id }) => this.refresh(id)));
  }

  /** @param {PaymentRequest} request */
  keep(request) {
    const { payments } = this.#device.state;
    const { payment_request_id: id, status } = request;
    if (status === "pending" && payments[id] && payments[id].status !== status) return; // read before the change
    this.#device.update({ payments: { ...payments, [id]: request } });
    this.watch();
  }

  /** Poll while no socket brings events. */
  async #look() {
    if (this.#device.isStarted && !this.#device.pairing.isOpen) await this.refreshPending();
    this.#poll = null;
    this.watch();
  }

  /** Poll while a payment is pending and the client is started. */
  watch() {
    if (this.#poll !== null || !this.#device.isStarted || this.#pending().length === 0) return;
    this.#poll = this.#device.ports.time.after(POLL_MS, () => void this.#look());
  }

  #pending() {
    return Object.values(this.#device.state.payments).filter((request) => request.status === "pending");
  }

  get #key() {
    return `${this.#device.tokens.current?.user.id}:payment`;
  }
}
