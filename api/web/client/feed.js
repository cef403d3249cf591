const REMEMBERED = 1000;
const ACK = "ack:";

/** Events by id: each is acknowledged whenever it arrives, and acted on once, unless a later one was there before. */
export class Feed {
  /** @type {Set<string>} */
  #seen = new Set();
  /** @type {Map<string, string>} the newest event's id by object */
  #newest = new Map();

  /**
   * Return whether an event is new, and no later one about the same object has arrived.
   * @param {any} frame
   */
  isNew(frame) {
    const { event_id: id } = frame;
    if (this.#seen.has(id)) return false;
    this.#seen.add(id);
    if (this.#seen.size > REMEMBERED) this.#seen.delete(/** @type {string} */ (this.#seen.values().next().value));
    const object = objectOf(frame);
    if (id < (this.#newest.get(object) ?? "")) return false;
    this.#newest.set(object, id);
    return true;
  }

  /** Forget the order of events, because the service's database was replaced. */
  forgetOrder() {
    this.#newest.clear();
  }
}

/** @param {any} frame */
const objectOf = ({ type, session, extension, request, payment_request, session_id, payment_request_id }) => {
  if (session) return `session ${session.id}`;
  if (extension) return `extension ${extension.id}`;
  if (type.startsWith("chat_request")) return `request ${request?.session_id ?? session_id}`;
  if (/^peer_(absent|returned)$/.test(type)) return `peer ${session_id}`;
  return `${type} ${payment_request?.payment_request_id ?? payment_request_id ?? session_id}`;
};

/** @param {string} eventId */
export const ackFrame = (eventId) => ({ type: "ack", ref: ACK + eventId, event_id: eventId });

/**
 * Return the event whose acknowledgement was refused for the moment, or null.
 * @param {any} frame
 * @returns {string | null}
 */
export const refusedAck = (frame) =>
  frame.code === "UNAVAILABLE" && frame.ref?.startsWith(ACK) ? frame.ref.slice(ACK.length) : null;
