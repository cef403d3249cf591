import { shown } from "./chat_view.js";

/** @import { Message as Sent, ShownMessage } from "./types.d.ts" */
/**
 * What the library needs of a message.
 * @typedef {Pick<Sent, "id" | "session_id" | "seq" | "sender_type" | "client_message_id" | "content" | "metadata"
 *   | "status" | "created_at"> & Partial<Pick<Sent, "blanked">>} Message
 */

const RANK = { sent: 0, delivered: 1, read: 2 };

/** The messages of one session by `seq`. Those from `first` to `last` are without a hole. */
export class Transcript {
  first = 1;
  last = 0;
  #newest = 0;
  #role;
  /** @type {Map<number, Message>} */
  #messages = new Map();
  /** @type {readonly ShownMessage[] | null} */
  #shown = null;

  /** @param {"customer" | "mitra"} role the reader's side */
  constructor(role) {
    this.#role = role;
  }

  /** Whether a message is missing before one that has arrived. */
  get hasHole() {
    return this.#newest > this.last;
  }

  /** @param {number} seq */
  has(seq) {
    return this.#messages.has(seq);
  }

  /**
   * Begin an empty transcript with its end, which was read as a page.
   * @param {readonly Message[]} messages in ascending order, without holes
   */
  beginWith(messages) {
    if (this.#messages.size === 0 && messages[0]) {
      this.first = messages[0].seq;
      this.last = this.first - 1;
    }
    this.add(messages);
  }

  /**
   * Add messages. Return those of the other party that are new and have none missing before them.
   * @param {readonly Message[]} messages
   */
  add(messages) {
    const before = this.last;
    for (const message of messages) {
      const known = this.#messages.get(message.seq);
      this.#messages.set(message.seq, known ? later(known, message) : message);
      this.#newest = Math.max(this.#newest, message.seq);
    }
    while (this.#messages.has(this.last + 1)) this.last++;
    while (this.#messages.has(this.first - 1)) this.first--;
    this.#shown = null;
    return this.#others(before + 1);
  }

  /**
   * Apply the other party's mark to the reader's messages. Return whether one has changed.
   * @param {"delivered" | "read"} status
   * @param {number} upTo
   */
  mark(status, upTo) {
    const changed = this.own().filter((message) => message.seq <= upTo && RANK[message.status] < RANK[status]);
    for (const message of changed) this.#messages.set(message.seq, { ...message, status });
    if (changed.length) this.#shown = null;
    return changed.length > 0;
  }

  /** Return the reader's messages, also those behind a hole. */
  own() {
    const own = [...this.#messages.values()].filter((message) => this.#isOwn(message));
    return own.sort((a, b) => a.seq - b.seq);
  }

  /**
   * Return how many messages of the other party neither the service nor `upTo` counts as read.
   * @param {number} upTo
   */
  unread(upTo) {
    return this.#others(Math.max(this.first, upTo + 1)).filter(({ status }) => status !== "read").length;
  }

  /** Return the messages without a hole, then the reader's acknowledged ones behind it, as apps show them. */
  shown() {
    if (this.#shown) return this.#shown;
    const beyond = this.own().filter(({ seq }) => seq > this.last);
    const messages = [...this.between(this.first, this.last), ...beyond];
    this.#shown = messages.map((message) => shown(message, this.#isOwn(message), message.status));
    return this.#shown;
  }

  /** @param {number} from */
  #others(from) {
    return this.between(from, this.last).filter((message) => !this.#isOwn(message));
  }

  /** @param {Message} message */
  #isOwn({ sender_type }) {
    return sender_type === this.#role;
  }

  /**
   * Return the messages from one `seq` to another; they are without a hole.
   * @param {number} from
   * @param {number} to
   */
  between(from, to) {
    const found = [];
    for (let seq = from; seq <= to; seq++) found.push(/** @type {Message} */ (this.#messages.get(seq)));
    return found;
  }
}

/**
 * Return the later form of one message: its status only grows.
 * @param {Message} known
 * @param {Message} message
 */
const later = (known, message) =>
  known.id === message.id && RANK[known.status] > RANK[message.status] ? { ...message, status: known.status } : message;
