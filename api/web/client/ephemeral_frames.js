import { ignoreRefusal } from "./errors.js";

const TYPING_MS = 5000;
const TYPING_EVERY_MS = 3000;

/** What the parties of a session let each other see besides messages: how far they have read, and that they type. */
export class EphemeralFrames {
  #device;
  /** @type {Map<string, number>} */
  #typedAt = new Map();

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
  }

  /**
   * Mark everything that is shown as read.
   * @param {string} id session id
   */
  markRead(id) {
    const { chat, chats } = this.#device;
    const entry = chats.entries.get(id);
    if (!entry || entry.transcript.unread(entry.readUpTo) === 0) return;
    const { last } = entry.transcript;
    chat.send({ type: "read", session_id: id, up_to: last });
    chats.show(id, { readUpTo: last });
  }

  /**
   * Let the other party see that the user types.
   * @param {string} id session id
   */
  typing(id) {
    const now = this.#device.ports.time.mono();
    if (now - (this.#typedAt.get(id) ?? -TYPING_EVERY_MS) < TYPING_EVERY_MS) return;
    this.#typedAt.set(id, now);
    this.#device.chat.send({ type: "typing", session_id: id, is_typing: true });
  }

  /** @param {{ session_id: string, status: "delivered" | "read", up_to: number }} frame */
  async receiveMark({ session_id: id, status, up_to }) {
    const { chats } = this.#device;
    const entry = chats.entries.get(id);
    if (!entry) return;
    if (status === "read" && entry.transcript.unread(entry.readUpTo) > 0) {
      // It may be from another device of this user; then only the service knows whose it was.
      const messages = await chats.page(id).catch(ignoreRefusal); // marks come again with the next
      if (messages) chats.add(entry, messages);
    } else if (entry.transcript.mark(status, up_to)) chats.show(id);
  }

  /** @param {{ session_id: string, is_typing: boolean }} frame */
  receiveTyping({ session_id: id, is_typing }) {
    const { clock, ports, chats } = this.#device;
    const typingUntil = is_typing ? clock.fromNow(TYPING_MS) : null;
    chats.show(id, { typingUntil });
    if (!is_typing) return;
    ports.time.after(TYPING_MS, () => {
      if (chats.entries.get(id)?.typingUntil === typingUntil) chats.show(id, { typingUntil: null });
    });
  }
}
