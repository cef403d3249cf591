/** @import { ChatRequest, Session } from "./types.d.ts" */

const CLOSED_KEPT = 20;
/** @type {Record<string, string>} what a refused acceptance says about the request */
const CLOSED_BY = { REQUEST_TAKEN: "taken", REQUEST_CLOSED: "timeout", NOT_FOUND: "timeout" };
const ROUTE = "POST /api/mitra/chat-requests/{session_id}";

/** The chat requests that a mitra can answer. */
export class Requests {
  #device;

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
  }

  /**
   * Replace the open requests by those of a snapshot.
   * @param {ChatRequest[]} requests
   */
  replace(requests) {
    this.#device.update({ requests: [] });
    for (const request of requests) this.#add(request);
  }

  /**
   * Handle a frame of `/ws/pairing`.
   * @param {any} frame
   */
  receive(frame) {
    if (frame.type === "chat_request") this.#add(frame.request);
    if (frame.type === "chat_request_closed") this.#close(frame.session_id, frame.reason);
  }

  /**
   * Accept a request and return its session. Raises SesiError.
   * @param {string} id session id
   * @returns {Promise<Session>}
   */
  async accept(id) {
    try {
      const session = await this.#device.account.call(`${ROUTE}/accept`, { path: { session_id: id }, fields: ["id"] });
      this.#remove(id);
      return session;
    } catch (error) {
      const reason = CLOSED_BY[/** @type {any} */ (error).code];
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
    const { requests } = this.#device.state;
    const index = requests.findIndex((one) => one.session_id === id);
    this.#device.update({
      requests: index < 0 ? [...requests, request] : requests.map((one, n) => (n === index ? request : one)),
    });
    this.#device.clock.after(Date.parse(request.answer_by), () => {
      if (this.#device.state.requests.includes(request)) this.#remove(id);
    });
  }

  /**
   * @param {string} id
   * @param {string} reason
   */
  #close(id, reason) {
    const others = this.#device.state.closedRequests.filter((one) => one.session_id !== id);
    this.#device.update({ closedRequests: [{ session_id: id, reason }, ...others].slice(0, CLOSED_KEPT) });
    this.#remove(id);
  }

  /** @param {string} id */
  #remove(id) {
    const { requests } = this.#device.state;
    this.#device.update({ requests: requests.filter((one) => one.session_id !== id) });
  }
}
