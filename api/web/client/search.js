import { ignoreRefusal } from "./errors.js";

/** @import { SearchEnd, Session } from "./types.d.ts" */

/** A customer's search for a mitra. */
export class Search {
  #device;

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
  }

  /**
   * Handle the snapshot of `/ws/pairing`.
   * @param {{ searching: Session | null }} frame
   */
  authenticated({ searching }) {
    const before = this.#device.state.search;
    this.#show(searching);
    if (before && before.id !== searching?.id) void this.#findEnd(before);
    void this.#device.payments.refreshPending();
  }

  /**
   * Handle a frame of `/ws/pairing`.
   * @param {any} frame
   */
  receive(frame) {
    const { payments, account } = this.#device;
    if (frame.type === "payment_updated") payments.keep(frame.payment_request);
    if (frame.type === "account_updated") void account.ask("GET /api/client/auth/me").catch(ignoreRefusal);
    if (frame.type !== "pairing_status") return;
    if (frame.status === "searching") void this.#searching(frame);
    else this.#ended(frame);
    if (frame.event_id) void payments.refresh(frame.payment_request_id);
  }

  /** @param {any} frame */
  async #searching({ session_id, asked }) {
    const { searchEnd } = this.#device.state;
    const known = () => {
      const { search } = this.#device.state;
      return search?.id === session_id ? search : null;
    };
    const read = known() ?? (await this.#device.chats.read(session_id).catch(ignoreRefusal));
    const session = known() ?? read; // another event may have come before the answer
    if (session?.search && session.status === "searching" && this.#device.state.searchEnd === searchEnd) {
      this.#show({ ...session, search: { ...session.search, asked: Math.max(asked, session.search.asked) } });
    }
  }

  /** @param {any} frame */
  #ended({ status, session_id, payment_request_id, cause_tag, mitra }) {
    const { search } = this.#device.state;
    if (search && search.search?.payment_request_id !== payment_request_id) return;
    this.#device.update({ search: null, searchEnd: { status, session_id, payment_request_id, cause_tag, mitra } });
  }

  /**
   * Find out how a search ended whose event another device has acknowledged.
   * @param {Session} before
   */
  async #findEnd({ id, search }) {
    const session = await this.#device.chats.read(id).catch(ignoreRefusal);
    if (!session || !search || session.status === "searching") return;
    const { payment_request_id } = search;
    const request = await this.#device.payments.read(payment_request_id).catch(() => null);
    const { mitra } = session;
    const cause_tag = request?.failure?.cause_tag;
    if (this.#device.state.search) return; // the next search has begun
    const status = mitra ? "paired" : cause_tag === "customer_cancelled" ? "cancelled" : "failed";
    this.#device.update({ searchEnd: { status, session_id: id, payment_request_id, cause_tag, mitra } });
  }

  /** @param {Session | null} session */
  #show(session) {
    this.#device.update(session ? { search: session, searchEnd: null } : { search: null });
  }
}
