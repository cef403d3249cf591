import { SesiError } from "./errors.js";

/** @import { ChatRequest, ClosedRequest, Session } from "./types.d.ts" */

const CLOSED_KEPT = 20;
/** @type {Record<string, string>} what a refused acceptance says about the request */
const CLOSED_BY = { REQUEST_TAKEN: "taken", REQUEST_CLOSED: "timeout", NOT_FOUND: "timeout" };
const ROUTE = "POST /api/mitra/chat-requests/{session_id}";

/** The chat requests that a mitra can answer. */
export class Requests {
  #device;
  /** @type {ChatRequest[]} */
  #open = [];
  /** @type {ClosedRequest[]} newest first */
  #closed = [];
  /** @type {Map<string, () => void>} cancels the removal at `answer_by`, by session id */
  #removals = new Map();

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
  }

  /**
   * Replace the open requests by those of a snapshot.
   * @param {ChatRequest[]} requests
   */
  replace(requests) {
    for (const cancel of this.#removals.values()) cancel();
    this.#removals.clear();
    this.#open = [];
    this.#publish();
    for (const request of requests) this.#add(request);
  }

  /** Forget all requests. */
  clear() {
    this.#closed = [];
    this.replace([]);
  }

  /**
   * Handle a frame of `/ws/pairing`. Return whether the app should see it.
   * @param {any} frame
   * @returns {boolean}
   */
  receive(frame) {
    const id = frame.request?.session_id ?? frame.session_id;
    if (frame.type !== "chat_request" && frame.type !== "chat_request_closed") return true;
    if (!this.#device.feed.isNewest(`request ${id}`, frame.event_id)) return false;
    if (frame.request) this.#add(frame.request);
    else this.#close(id, frame.reason);
    return true;
  }

  /**
   * Accept a request and return its session. Raises SesiError.
   * @param {string} id session id
   * @returns {Promise<Session>}
   */
  async accept(id) {
    try {
      const session = await this.#device.account.call(`${ROUTE}/accept`, { path: { session_id: id } });
      this.#remove(id);
      return session;
    } catch (error) {
      const reason = error instanceof SesiError && CLOSED_BY[error.code];
      if (reason) this.#close(id, reason);
      throw error;
    }
  }

  /**
   * Reject a request. Raises SesiError.
   * @param {string} id session id
   */
  async reject(id) {
    await this.#device.account.call(`${ROUTE}/reject`, { path: { session_id: id } });
    this.#remove(id);
  }

  /** @param {ChatRequest} request */
  #add(request) {
    const { session_id: id } = request;
    const index = this.#open.findIndex((one) => one.session_id === id);
    if (index < 0) this.#open = [...this.#open, request];
    else this.#open = this.#open.with(index, request);
    this.#removals.get(id)?.();
    this.#removals.set(
      id,
      this.#device.clock.after(Date.parse(request.answer_by), () => this.#remove(id)),
    );
    this.#publish();
  }

  /**
   * @param {string} id
   * @param {string} reason
   */
  #close(id, reason) {
    const others = this.#closed.filter((one) => one.session_id !== id);
    this.#closed = [{ session_id: id, reason }, ...others].slice(0, CLOSED_KEPT);
    this.#remove(id);
  }

  /** @param {string} id */
  #remove(id) {
    this.#removals.get(id)?.();
    this.#removals.delete(id);
    this.#open = this.#open.filter((one) => one.session_id !== id);
    this.#publish();
  }

  #publish() {
    this.#device.store.update({ requests: this.#open, closedRequests: this.#closed });
  }
}
