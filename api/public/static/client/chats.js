import { viewOf } from "./chat_view.js";
import { ignoreRefusal, SesiError } from "./errors.js";
import { isNewer, isRunning } from "./session.js";
import { Sync } from "./sync.js";
import { Transcript } from "./transcript.js";

/** @import { Extension, Session } from "./types.d.ts" */
/** @import { Message } from "./transcript.js" */

/**
 * @typedef {object} Entry
 * @property {Session} session
 * @property {Transcript} transcript
 * @property {Extension | null} extension
 * @property {boolean} syncing whether an answer to `sync` is awaited on this socket
 * @property {number} readUpTo
 * @property {number | null} typingUntil
 * @property {string | null} warnedFor the `expires_at` that the warning was about
 * @property {{ transcript: Transcript, own: Message[] } | null} reread after a change of epoch; `own` may be lost
 */

const SESSION = "/api/shared/chat/sessions/{session_id}";
const ANSWER = `POST ${SESSION}/extensions/{extension_id}/answer`;
const PAGE = 50;
const TYPING_MS = 5000;
const TYPING_EVERY_MS = 3000;

/** The chats of this device: running ones, and those that were opened. */
export class Chats {
  #device;
  #sync;
  /** @type {Map<string, Entry>} */
  #entries = new Map();
  /** @type {Map<string, number>} */
  #typedAt = new Map();

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
    this.#sync = new Sync(device, this.#entries);
  }

  /** Forget all chats. */
  clear() {
    this.#entries.clear();
    this.#sync.clear();
    this.#device.store.update({ chats: {} });
  }

  /**
   * Handle an `auth_ok` with its snapshot of running sessions.
   * @param {any} frame
   * @param {boolean} isNew whether it is the first one of a socket
   */
  authenticated(frame, isNew) {
    if (isNew) this.#sync.restart();
    const isOther = this.#sync.seeEpoch(frame.epoch);
    const running = new Set();
    for (const session of frame.sessions) {
      running.add(session.id);
      const entry = this.learn(session, isOther);
      entry.extension = session.extension ?? null;
      if (session.unread_count > 0 && entry.readUpTo > 0) this.#mark(entry, "read", entry.readUpTo);
      this.#publish(entry);
    }
    for (const entry of this.#entries.values()) {
      const isKnown = running.has(entry.session.id);
      if (!isKnown && isRunning(entry.session)) void this.refresh(entry.session.id);
      const isBehind = isKnown ? entry.session.last_seq !== entry.transcript.last : isRunning(entry.session);
      if (isBehind || entry.reread) this.#sync.request(entry);
    }
    if (isNew) this.#device.outbox.resend();
  }

  /**
   * Handle a frame of `/ws/chat`. Return whether the app should see it.
   * @param {any} frame
   * @returns {boolean}
   */
  receive(frame) {
    const entry = this.#entries.get(frame.extension?.session_id ?? frame.session_id);
    const { type, session } = frame;
    if (type === "message") return this.#receiveMessage(frame.message);
    if (type === "message_ack") this.#acknowledged(frame);
    else if (type === "sync") this.#sync.receive(frame);
    else if (type === "error") {
      if (!this.#sync.refused(frame)) this.#device.outbox.refuse(frame.ref, new SesiError(0, frame));
    } else if (session) this.#receiveSession(session);
    else if (entry) this.#change(entry, frame);
    return type !== "message_ack" && type !== "sync";
  }

  /**
   * Handle a frame that changes a chat.
   * @param {Entry} entry
   * @param {any} frame
   */
  #change(entry, frame) {
    switch (frame.type) {
      case "message_status":
        this.#receiveMark(entry, frame);
        break;
      case "typing":
        this.#receiveTyping(entry, frame.is_typing);
        break;
      case "session_topic_updated":
        this.learn({ ...entry.session, topic_sensitivity: frame.topic_sensitivity });
        break;
      case "session_warning":
        this.#publish(Object.assign(entry, { warnedFor: frame.expires_at }));
        break;
      case "extension_requested":
      case "extension_resolved":
        this.#publish(Object.assign(entry, { extension: frame.extension }));
    }
  }

  /**
   * Keep a session's view, unless a newer one is known.
   * @param {Session} session
   * @param {boolean} [anyway] whether an older view counts, too
   */
  learn(session, anyway = false) {
    let entry = this.#entries.get(session.id);
    if (!entry) {
      const transcript = new Transcript(this.#device.role);
      const nothing = { extension: null, typingUntil: null, warnedFor: null, reread: null };
      entry = { session, transcript, syncing: false, readUpTo: 0, ...nothing };
      this.#entries.set(session.id, entry);
    } else if (anyway || isNewer(session, entry.session)) entry.session = session;
    this.#publish(entry);
    return entry;
  }

  /**
   * Read a session, and the messages that are missing. A failure is left to the next snapshot.
   * @param {string} id
   */
  async refresh(id) {
    const session = await this.read(id).catch(ignoreRefusal);
    if (session) this.#receiveSession(session);
  }

  /**
   * Read a session. Raises SesiError.
   * @param {string} id
   * @returns {Promise<Session>}
   */
  read(id) {
    return this.#device.account.call(`GET ${SESSION}`, { path: { session_id: id } });
  }

  /**
   * Change a session and return it. Raises SesiError.
   * @param {string} route
   * @param {string} id
   * @param {object} [body]
   * @returns {Promise<Session>}
   */
  async act(route, id, body) {
    try {
      /** @type {Session} */
      const session = await this.#device.account.call(route, { path: { session_id: id }, body });
      this.learn(session);
      return session;
    } catch (error) {
      void this.refresh(id); // most refusals mean that it has changed
      throw error;
    }
  }

  /**
   * Answer an extension. Raises SesiError.
   * @param {string} id session id
   * @param {string} extensionId
   * @param {boolean} accept
   * @returns {Promise<Extension>}
   */
  async answerExtension(id, extensionId, accept) {
    const path = { session_id: id, extension_id: extensionId };
    const extension = await this.#device.account.call(ANSWER, { path, body: { accept } });
    const entry = this.#entries.get(id);
    if (entry) this.#publish(Object.assign(entry, { extension }));
    return extension;
  }

  /**
   * Read a session and the end of its transcript, unless both are known. Raises SesiError.
   * @param {string} id
   */
  async open(id) {
    const known = this.#entries.get(id);
    if (known && known.transcript.last >= known.session.last_seq) return;
    const [session, messages] = await Promise.all([this.read(id), this.#page(id)]);
    const entry = this.learn(session);
    entry.transcript.beginWith(messages);
    this.add(entry, messages);
  }

  /**
   * Read what comes before the transcript's first message. Raises SesiError.
   * @param {string} id
   */
  async loadEarlier(id) {
    const entry = this.#entries.get(id);
    if (!entry || entry.transcript.first <= 1) return;
    this.add(entry, await this.#page(id, entry.transcript.first));
  }

  /**
   * Mark everything that is shown as read.
   * @param {string} id
   */
  markRead(id) {
    const entry = this.#entries.get(id);
    if (!entry || entry.transcript.unread(entry.readUpTo) === 0) return;
    entry.readUpTo = entry.transcript.last;
    this.#mark(entry, "read", entry.readUpTo);
    this.#publish(entry);
  }

  /**
   * Let the other party see that the user types.
   * @param {string} id
   */
  typing(id) {
    const now = this.#device.ports.time.mono();
    if (now - (this.#typedAt.get(id) ?? -TYPING_EVERY_MS) < TYPING_EVERY_MS) return;
    this.#typedAt.set(id, now);
    this.#device.chat.send({ type: "typing", session_id: id, is_typing: true });
  }

  /**
   * Show the present state of the outbox.
   * @param {string} id
   */
  show(id) {
    const entry = this.#entries.get(id);
    if (entry) this.#publish(entry);
  }

  /**
   * Add a message that the service has stored.
   * @param {Message} message
   */
  stored(message) {
    const entry = this.#entries.get(message.session_id);
    if (!entry) {
      this.#device.outbox.take(message.client_message_id);
      void this.refresh(message.session_id);
      return;
    }
    this.add(entry, [message]);
    if (entry.transcript.hasHole) this.#sync.request(entry);
  }

  /**
   * Return the messages before a `seq`, or the last ones.
   * @param {string} id
   * @param {number} [before]
   * @returns {Promise<Message[]>}
   */
  async #page(id, before) {
    const options = { path: { session_id: id }, query: { before, limit: PAGE } };
    return (await this.#device.account.call(`GET ${SESSION}/messages`, options)).items;
  }

  /** @param {Message} message */
  #receiveMessage(message) {
    const isNew = !this.#entries.get(message.session_id)?.transcript.has(message.seq);
    this.stored(message);
    return isNew;
  }

  /** @param {import("./types.d.ts").MessageAckFrame} ack */
  #acknowledged(ack) {
    const unsent = this.#device.outbox.entries.find((entry) => entry.id === ack.client_message_id);
    if (!unsent) return;
    const { sessionId, content, metadata } = unsent;
    this.stored({ ...ack, session_id: sessionId, sender_type: this.#device.role, content, metadata, status: "sent" });
  }

  /** @param {Session} session */
  #receiveSession(session) {
    const entry = this.learn(session);
    if (session.last_seq > entry.transcript.last) this.#sync.request(entry);
  }

  /**
   * @param {Entry} entry
   * @param {{ status: "delivered" | "read", up_to: number }} mark
   */
  #receiveMark(entry, { status, up_to }) {
    const { transcript } = entry;
    // A `read` may be from another device of this user; then only the service knows whose it was.
    if (status === "read" && transcript.unread(entry.readUpTo) > 0) void this.#readStatuses(entry);
    else if (transcript.mark(status, up_to)) this.#publish(entry);
  }

  /** @param {Entry} entry */
  async #readStatuses(entry) {
    const messages = await this.#page(entry.session.id).catch(ignoreRefusal); // marks come again with the next
    if (messages) this.add(entry, messages);
  }

  /**
   * @param {Entry} entry
   * @param {boolean} isTyping
   */
  #receiveTyping(entry, isTyping) {
    const { clock, ports } = this.#device;
    const until = isTyping ? clock.fromNow(TYPING_MS) : null;
    this.#publish(Object.assign(entry, { typingUntil: until }));
    if (!isTyping) return;
    ports.time.after(TYPING_MS, () => {
      if (entry.typingUntil === until) this.#publish(Object.assign(entry, { typingUntil: null }));
    });
  }

  /**
   * Add messages that the service has stored.
   * @param {Entry} entry
   * @param {Message[]} messages
   */
  add(entry, messages) {
    const fromOther = entry.transcript.add(messages);
    entry.reread?.transcript.add(messages);
    for (const message of messages) this.#device.outbox.take(message.client_message_id);
    if (fromOther.length) {
      entry.typingUntil = null;
      this.#mark(entry, "delivered", entry.transcript.last);
    }
    this.#publish(entry);
  }

  /**
   * Show a transcript that was read again, and send the user's messages that are not in it.
   * @param {Entry} entry
   * @param {Message[]} lost
   */
  replaced(entry, lost) {
    for (const { client_message_id: id, session_id: sessionId, content, metadata } of lost) {
      void this.#device.outbox.add({ id, sessionId, content, metadata, refusal: null });
    }
    this.#publish(entry);
  }

  /**
   * @param {Entry} entry
   * @param {"delivered" | "read"} type
   * @param {number} upTo
   */
  #mark({ session }, type, upTo) {
    this.#device.chat.send({ type, session_id: session.id, up_to: upTo });
  }

  /** @param {Entry} entry */
  #publish(entry) {
    const { id } = entry.session;
    const unsent = this.#device.outbox.entries.filter((one) => one.sessionId === id);
    const { store } = this.#device;
    store.update({ chats: { ...store.state.chats, [id]: viewOf(entry, unsent) } });
  }
}
