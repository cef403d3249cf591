const REMEMBERED = 1000;
const ACK = "ack:";

/** Events by id: each is acknowledged whenever it arrives, and acted on once, unless a later one was there before. */
export class Feed {
  /** @type {Set<string>} */
  #seen = new Set();
  /** @type {Map<string, string>} the newest event's id by object */
  #newest = new Map();

  /**
   * Return whether an event is new.
   * @param {string} eventId
   */
  isNew(eventId) {
    if (this.#seen.has(eventId)) return false;
    this.#seen.add(eventId);
    if (this.#seen.size > REMEMBERED) this.#seen.delete(/** @type {string} */ (this.#seen.values().next().value));
    return true;
  }

  /**
   * Return whether no later event about the same object has arrived.
   * @param {string} object its kind and id
   * @param {string | undefined} eventId undefined for a frame that is not kept
   */
  isNewest(object, eventId) {
    if (eventId === undefined) return true;
    if (eventId < (this.#newest.get(object) ?? "")) return false;
    this.#newest.set(object, eventId);
    return true;
  }

  /** Forget the order of events, because the service's database was replaced. */
  forgetOrder() {
    this.#newest.clear();
  }
}

/** @param {string} eventId */
export const ackFrame = (eventId) => ({ type: "ack", ref: ACK + eventId, event_id: eventId });

/**
 * Return the event whose acknowledgement was refused for the moment, or null.
 * @param {any} frame
 * @returns {string | null}
 */
export const refusedAck = (frame) =>
  frame.type === "error" && frame.code === "UNAVAILABLE" && frame.ref?.startsWith(ACK)
    ? frame.ref.slice(ACK.length)
    : null;
