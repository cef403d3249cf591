/** @import { SearchEnd, Session } from "./types.d.ts" */

/**
 * @typedef {object} World
 * @property {import("./feed.js").Feed} feed
 * @property {import("./payments.js").Payments} payments
 * @property {(sessionId: string) => Promise<Session | null>} readSession null after a failure
 * @property {(patch: { search?: Session | null, searchEnd?: SearchEnd | null }) => void} publish
 */

/** A customer's search for a mitra. */
export class Search {
  #world;
  /** @type {Session | null} */
  #session = null;

  /** @param {World} world */
  constructor(world) {
    this.#world = world;
  }

  /** Forget the search. */
  clear() {
    this.#session = null;
    this.#world.publish({ search: null, searchEnd: null });
  }

  /**
   * Handle the snapshot of `/ws/pairing`.
   * @param {{ searching: Session | null }} frame
   */
  authenticated({ searching }) {
    const before = this.#session;
    this.#show(searching);
    if (before && before.id !== searching?.id) void this.#findEnd(before);
    void this.#world.payments.refreshPending();
  }

  /**
   * Handle a frame of `/ws/pairing`. Return whether the app should see it.
   * @param {any} frame
   * @returns {boolean}
   */
  receive(frame) {
    const { feed, payments } = this.#world;
    if (frame.type === "payment_updated") {
      const request = frame.payment_request;
      if (!feed.isNewest(`payment ${request.payment_request_id}`, frame.event_id)) return false;
      payments.keep(request);
    }
    if (frame.type !== "pairing_status") return true;
    if (!feed.isNewest(`pairing ${frame.payment_request_id}`, frame.event_id)) return false;
    if (frame.status === "searching") void this.#searching(frame);
    else this.#ended(frame);
    if (frame.event_id) void payments.refresh(frame.payment_request_id);
    return true;
  }

  /** @param {any} frame */
  async #searching({ session_id, asked }) {
    const known = this.#session;
    if (known?.id !== session_id) {
      const session = await this.#world.readSession(session_id);
      if (session?.status === "searching") this.#show(session);
    } else if (known?.search && asked > known.search.asked) {
      this.#show({ ...known, search: { ...known.search, asked } });
    }
  }

  /** @param {any} frame */
  #ended({ status, session_id, payment_request_id, cause_tag, mitra }) {
    if (this.#session && this.#session.search?.payment_request_id !== payment_request_id) return;
    this.#end({ status, session_id, payment_request_id, ...(cause_tag && { cause_tag }), ...(mitra && { mitra }) });
  }

  /**
   * Find out how a search ended whose event another device has acknowledged.
   * @param {Session} before
   */
  async #findEnd({ id, search }) {
    const session = await this.#world.readSession(id);
    if (!session || !search || session.status === "searching") return;
    const { payment_request_id } = search;
    const request = await this.#world.payments.read(payment_request_id).catch(() => null);
    const cause = request?.failure?.cause_tag;
    const status = session.mitra ? "paired" : cause === "customer_cancelled" ? "cancelled" : "failed";
    const details = session.mitra ? { mitra: session.mitra } : cause ? { cause_tag: cause } : {};
    this.#world.publish({ searchEnd: { status, session_id: id, payment_request_id, ...details } });
  }

  /** @param {Session | null} session */
  #show(session) {
    this.#session = session;
    this.#world.publish(session ? { search: session, searchEnd: null } : { search: null });
  }

  /** @param {SearchEnd} searchEnd */
  #end(searchEnd) {
    this.#session = null;
    this.#world.publish({ search: null, searchEnd });
  }
}
