/** @import { Chat, ServerFrame, State } from "../../../api/web/client/types.d.ts" */

const SENT_LAST = Number.POSITIVE_INFINITY;

/** Checks what one phone shows after each change: each message once, in order, and never taken back. */
export class Shown {
  #violation;
  /** @type {Map<string, Map<number, string>>} the id of each message that was shown, by session and `seq` */
  #ids = new Map();
  /** @type {Readonly<Record<string, Chat>>} */
  #before = {};
  /** @type {Set<string>} */
  #events = new Set();

  /** @param {(what: string) => void} violation */
  constructor(violation) {
    this.#violation = violation;
  }

  /** Begin a run of the app, which has shown nothing so far. */
  restart() {
    this.#before = {};
    this.#events.clear();
  }

  /** @param {State} state */
  check({ chats }) {
    for (const [sessionId, chat] of Object.entries(chats)) {
      if (chat !== this.#before[sessionId]) this.#checkChat(sessionId, chat, this.#before[sessionId]);
    }
    this.#before = chats;
  }

  /**
   * Check that an event reaches the app once.
   * @param {ServerFrame} frame
   */
  checkEvent(frame) {
    if (!("event_id" in frame) || !frame.event_id) return;
    const session = "session" in frame ? frame.session.id : "";
    for (const key of frame.type === "session_completed" ? [frame.event_id, frame.type + session] : [frame.event_id]) {
      if (this.#events.has(key)) this.#violation(`the app got ${frame.type} twice: ${key}`);
      this.#events.add(key);
    }
  }

  /**
   * @param {string} sessionId
   * @param {Chat} chat
   * @param {Chat | undefined} before
   */
  #checkChat(sessionId, chat, before) {
    const { messages } = chat;
    const ids = this.#ids.get(sessionId) ?? new Map();
    this.#ids.set(sessionId, ids);
    const keys = messages.map((message) => message.clientMessageId);
    if (new Set(keys).size !== keys.length) this.#violation(`a message is shown twice in ${sessionId}: ${keys}`);
    let [expected, last] = [messages[0]?.seq ?? SENT_LAST, 0];
    for (const { seq, id, own } of messages) {
      const place = seq ?? SENT_LAST;
      if (place < last || (place === last && seq !== null)) this.#violation(`seq ${seq} is shown after ${last}`);
      if (seq !== null && seq > expected && !own) this.#violation(`seq ${seq} is shown behind a hole at ${expected}`);
      if (seq === expected) expected++;
      last = place;
      if (seq !== null && (ids.get(seq) ?? id) !== id)
        this.#violation(`seq ${seq} was ${ids.get(seq)}, now it is ${id}`);
      if (seq !== null) ids.set(seq, id);
    }
    const now = new Set(messages.map((message) => message.id ?? message.clientMessageId));
    for (const { id, seq } of before?.messages ?? []) {
      if (id !== null && !now.has(id)) this.#violation(`seq ${seq} of ${sessionId} is no longer shown`);
    }
  }
}
