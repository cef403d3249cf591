import { isNewer, isRunning, viewOf } from "./chat_view.js";
import { ignoreRefusal, SesiError } from "./errors.js";
import { Transcript } from "./transcript.js";

/** @import { Chat, Extension, Session } from "./types.d.ts" */
/** @import { Message } from "./transcript.js" */

/**
 * @typedef {object} Entry
 * @property {Session} session
 * @property {Transcript} transcript
 * @property {Extension | null} extension
 * @property {boolean} syncing whether an answer to `sync` is awaited on this socket
 * @property {number} readUpTo
 * @property {number | null} typingUntil
 * @property {Chat["credit"]} credit the newest time that was given back
 * @property {string | null} absentSince since when the other party has been away
 * @property {string | null} warnedFor the `expires_at` that the warning was about
 * @property {{ transcript: Transcript, own: Message[] } | null} reread after a change of epoch, or another digest; `own` may be lost
 * @property {{ transcript: Transcript, after: number } | null} asked for which transcript the last `sync` was, and after which `seq`
 * @property {"unchecked" | "equal" | "reread" | "different"} digest how the transcript compares with the service's digest
 */

const SESSION = "/api/shared/chat/sessions/{session_id}";
const ANSWER = `POST ${SESSION}/extensions/{extension_id}/answer`;
const PAGE = 50;
const FIELDS = ["id", "status"];

/**
 * Return a session's field with the other party's new name.
 * @param {Session} session
 * @param {string} role of this device
 * @param {string} display_name
 */
const renamed = ({ customer, mitra }, role, display_name) =>
  role === "mitra" ? { customer: { ...customer, display_name } } : { mitra: mitra && { ...mitra, display_name } };

/** The chats of this device: running ones, and those that were opened. */
export class Chats {
  #device;
  /** @type {Map<string, Entry>} by session id */
  entries = new Map();

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
  }

  /** Forget all chats. */
  clear() {
    this.entries.clear();
    this.#device.sync.clear();
    this.#device.update({ chats: {} });
  }

  /**
   * Handle an `auth_ok` with its snapshot of running sessions.
   * @param {any} frame
   * @param {boolean} isNew whether it is the first one of a socket
   */
  authenticated(frame, isNew) {
    const { chat, sync, outbox } = this.#device;
    if (isNew) sync.restart();
    const isOther = sync.seeEpoch(frame.epoch);
    const running = new Set();
    for (const session of frame.sessions) {
      running.add(session.id);
      const entry = this.learn(session, isOther);
      const { readUpTo } = entry;
      if (session.unread_count > 0 && readUpTo > 0)
        chat.send({ type: "read", session_id: session.id, up_to: readUpTo });
      entry.transcript.mark("delivered", session.peer_delivered_up_to ?? 0); // it may have moved while this device was away
      entry.transcript.mark("read", session.peer_read_up_to ?? 0);
      this.show(session.id, { extension: session.extension ?? null, absentSince: session.peer_absent_since ?? null });
    }
    for (const entry of this.entries.values()) {
      const { session, transcript, reread } = entry;
      const isOver = isRunning(session) && !running.has(session.id);
      if (isOver) void this.refresh(session.id);
      if (isOver || session.last_seq > transcript.last || reread) sync.request(entry);
    }
    if (isNew) outbox.resend();
  }

  /**
   * Handle a frame of `/ws/chat`. Return whether the app should see it.
   * @param {any} frame
   * @returns {boolean}
   */
  receive(frame) {
    const { sync, outbox, ephemeral } = this.#device;
    const { session_id: id, session, extension } = frame;
    switch (frame.type) {
      case "message":
        return this.stored(frame.message);
      case "message_ack":
        this.#acknowledged(frame);
        return false;
      case "sync":
        sync.receive(frame);
        return false;
      case "error": {
        const error = new SesiError(0, frame);
        if (!sync.refused(frame.ref, error)) outbox.refuse(frame.ref, error);
        break;
      }
      case "message_status":
        void ephemeral.receiveMark(frame);
        break;
      case "typing":
        ephemeral.receiveTyping(frame);
        break;
      case "session_warning":
        this.show(id, { warnedFor: frame.expires_at });
        break;
      case "session_clock_adjusted":
        this.#receiveSession(session);
        this.show(session.id, { credit: { addedSeconds: frame.added_seconds, reason: frame.reason } });
        break;
      case "peer_absent":
        this.show(id, { absentSince: frame.since });
        break;
      case "peer_returned":
        this.show(id, { absentSince: null });
        break;
      case "peer_renamed": {
        const known = this.entries.get(id)?.session;
        if (known) this.learn({ ...known, ...renamed(known, this.#device.role, frame.display_name) });
        break;
      }
      case "session_topic_updated": {
        const known = this.entries.get(id)?.session;
        if (known) this.learn({ ...known, topic_sensitivity: frame.topic_sensitivity });
        break;
      }
      case "extension_requested":
      case "extension_resolved":
        this.show(extension.session_id, { extension });
        break;
      default:
        if (session) this.#receiveSession(session);
    }
    return true;
  }

  /**
   * Keep a session's view, unless a newer one is known.
   * @param {Session} session
   * @param {boolean} [anyway] whether an older view counts, too
   */
  learn(session, anyway = false) {
    let entry = this.entries.get(session.id);
    if (!entry) {
      entry = {
        session,
        transcript: new Transcript(this.#device.role),
        extension: null,
        syncing: false,
        readUpTo: 0,
        typingUntil: null,
        credit: null,
        absentSince: null,
        warnedFor: null,
        reread: null,
        asked: null,
        digest: "unchecked",
      };
      this.entries.set(session.id, entry);
    } else if (anyway || isNewer(session, entry.session)) entry.session = session;
    this.show(session.id);
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
    return this.#device.account.call(`GET ${SESSION}`, { path: { session_id: id }, fields: FIELDS });
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
      const session = await this.#device.account.call(route, { path: { session_id: id }, body, fields: FIELDS });
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
    const extension = await this.#device.account.call(ANSWER, { path, body: { accept }, fields: FIELDS });
    this.show(id, { extension });
    return extension;
  }

  /**
   * Read a session and the end of its transcript, unless both are known. Raises SesiError.
   * @param {string} id
   */
  async open(id) {
    const known = this.entries.get(id);
    if (known && known.transcript.last >= known.session.last_seq) return;
    const [session, messages] = await Promise.all([this.read(id), this.page(id)]);
    const entry = this.learn(session);
    entry.transcript.beginWith(messages);
    this.add(entry, messages);
  }

  /**
   * Read what comes before the transcript's first message. Raises SesiError.
   * @param {string} id
   */
  async loadEarlier(id) {
    const entry = this.entries.get(id);
    if (!entry || entry.transcript.first <= 1) return;
    this.add(entry, await this.page(id, entry.transcript.first));
  }

  /**
   * Add a message that the service has stored. Return whether it is new.
   * @param {Message} message
   */
  stored(message) {
    const entry = this.entries.get(message.session_id);
    if (!entry) {
      this.#device.outbox.take(message.client_message_id);
      void this.refresh(message.session_id);
      return true;
    }
    const isNew = !entry.transcript.has(message.seq);
    this.add(entry, [message]);
    if (entry.transcript.hasHole) this.#device.sync.request(entry);
    return isNew;
  }

  /**
   * Return the messages before a `seq`, or the last ones. Raises SesiError.
   * @param {string} id
   * @param {number} [before]
   * @returns {Promise<Message[]>}
   */
  async page(id, before) {
    const options = { path: { session_id: id }, query: { before, limit: PAGE }, fields: ["items"] };
    return (await this.#device.account.call(`GET ${SESSION}/messages`, options)).items;
  }

  /** @param {import("./types.d.ts").MessageAckFrame} ack */
  #acknowledged(ack) {
    const unsent = this.#device.outbox.find(ack.client_message_id);
    if (!unsent) return;
    const { sessionId, content, metadata } = unsent;
    this.stored({ ...ack, session_id: sessionId, sender_type: this.#device.role, content, metadata, status: "sent" });
  }

  /** @param {Session} session */
  #receiveSession(session) {
    const entry = this.learn(session);
    if (session.last_seq > entry.transcript.last) this.#device.sync.request(entry);
  }

  /**
   * Add messages that the service has stored.
   * @param {Entry} entry
   * @param {Message[]} messages
   */
  add(entry, messages) {
    const { id } = entry.session;
    const fromOther = entry.transcript.add(messages);
    entry.reread?.transcript.add(messages);
    for (const message of messages) this.#device.outbox.take(message.client_message_id);
    if (fromOther.length) {
      entry.typingUntil = null;
      this.#device.acknowledge("chat", { type: "delivered", session_id: id, up_to: entry.transcript.last });
    }
    this.show(id);
  }

  /**
   * Show a chat and what the outbox has for it, after changes.
   * @param {string} id
   * @param {Partial<Entry>} [changes]
   */
  show(id, changes) {
    const entry = this.entries.get(id);
    if (!entry) return;
    Object.assign(entry, changes);
    const { state, outbox } = this.#device;
    const unsent = outbox.entries.filter((one) => one.sessionId === id);
    this.#device.update({ chats: { ...state.chats, [id]: viewOf(entry, unsent) } });
  }
}
