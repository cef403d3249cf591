const REMEMBERED = 1000;
/**
 * What each event is about, by type (docs/events.md#all-events); all others are about a session.
 * @type {Record<string, string>}
 */
const ORDER_KEYS = {
  account_updated: "account_updated",
  chat_request: "chat_request {request.session_id}",
  chat_request_closed: "chat_request {session_id}",
  extension_requested: "extension {extension.id}",
  extension_resolved: "extension {extension.id}",
  message: "message {message.id}",
  mitra_status_changed: "mitra_status_changed",
  pairing_status: "pairing_status {payment_request_id}",
  payment_updated: "payment_updated {payment_request.payment_request_id}",
  peer_absent: "peer {session_id}",
  peer_renamed: "peer_renamed {session_id}",
  peer_returned: "peer {session_id}",
  session_topic_updated: "session_topic_updated {session_id}",
  session_warning: "session_warning {session_id}",
};
const ACK = "ack:";

/** Events by id: each is acknowledged whenever it arrives, and acted on once, unless a later one was there before. */
export class Feed {
  /** @type {Set<string>} */
  #seen = new Set();
  /** @type {Map<string, string>} the newest event's id by order key */
  #newest = new Map();

  /**
   * Return whether an event is new, and no later one of the same order key has arrived.
   * @param {any} frame
   */
  isNew(frame) {
    const { event_id: id } = frame;
    if (this.#seen.has(id)) return false;
    this.#seen.add(id);
    if (this.#seen.size > REMEMBERED) this.#seen.delete(/** @type {string} */ (this.#seen.values().next().value));
    const key = orderKey(frame);
    if (id < (this.#newest.get(key) ?? "")) return false;
    this.#newest.set(key, id);
    return true;
  }

  /** Forget the order of events, because the service's database was replaced. */
  forgetOrder() {
    this.#newest.clear();
  }
}

/**
 * Return the order key of an event: only events with the same one are compared. One that this version does not know has
 * a key for itself.
 * @param {any} frame
 */
export const orderKey = (frame) =>
  (ORDER_KEYS[frame.type] ?? (frame.session ? "session {session.id}" : "{event_id}")).replace(
    /\{([\w.]+)\}/g,
    (_, path) => path.split(".").reduce((/** @type {any} */ value, /** @type {string} */ name) => value?.[name], frame),
  );

/**
 * @param {string} eventId
 * @returns {{ type: "ack", ref: string, event_id: string }}
 */
export const ackFrame = (eventId) => ({ type: "ack", ref: ACK + eventId, event_id: eventId });

/**
 * Return the event whose acknowledgement was refused for the moment, or null.
 * @param {any} frame
 * @returns {string | null}
 */
export const refusedAck = (frame) =>
  frame.code === "UNAVAILABLE" && frame.ref?.startsWith(ACK) ? frame.ref.slice(ACK.length) : null;
