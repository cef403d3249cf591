import { ignoreRefusal, SesiError } from "./errors.js";
import { isTransient, longestPause } from "./rest.js";

/** @import { ErrorDetails, Message } from "./types.d.ts" */

/**
 * @typedef {object} Unsent
 * @property {string} id client_message_id
 * @property {string} sessionId
 * @property {string} content
 * @property {Record<string, unknown> | null} metadata
 * @property {{ status: number, code: string, message: string, details: ErrorDetails } | null} refusal
 */

/**
 * How one session's messages are sent: all at once, or `slow`, each after the answer to the one before.
 * @typedef {{ inFlight: Set<string>, slow: boolean, held: boolean, timer: unknown }} Line
 */

const LONGEST = 4000;
const RESEND_MS = 2000;
const FRAME_BYTES = 16_384;
const MOST_SILENT = 3; // frames without an answer, after which a message goes over REST, which always has one
const MOST_FAILURES = 6; // of the service at one message, after which it counts as refused
const POST = "POST /api/shared/chat/sessions/{session_id}/messages";

/**
 * Return whether messages may not have a character: controls but tabs and line breaks, and halves of characters.
 * @param {string} sign
 */
function isControl(sign) {
  const code = sign.codePointAt(0) ?? 0;
  return (code < 32 && !"\t\n\r".includes(sign)) || (code > 126 && code < 160) || (code >= 0xd800 && code < 0xe000);
}

/**
 * Check what can never be sent. That something is visible is left to the service. Throws SesiError.
 * @param {string} content
 */
export function checkContent(content) {
  const signs = [...content.normalize()];
  if (signs.length > 0 && signs.length <= LONGEST && !signs.some(isControl)) return;
  const message = "must be 1 to 4,000 characters long, without control characters";
  const details = { fields: [{ field: "content", message }] };
  throw new SesiError(0, { code: "VALIDATION_ERROR", message: `The message ${message}.`, details });
}

/** Own messages without an acknowledgement: stored before they are sent, and repeated unchanged. */
export class Outbox {
  /** @type {readonly Unsent[]} in the order in which the user wrote them */
  entries = [];
  #device;
  #key = "";
  /** @type {Map<string, Line>} */
  #lines = new Map();
  /** @type {Set<string>} */
  #unwritten = new Set();
  /** @type {Map<string, { silent: number, failed: number }>} by message, since its last answer, and since it was sent */
  #tries = new Map();
  /** @type {Set<string>} those whose answer over REST is awaited */
  #posting = new Set();
  /** @type {Promise<void>} */
  #writes = Promise.resolve();

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
  }

  /**
   * Read a user's stored messages. Those of an anonymous customer who has become this user are kept.
   * @param {string} userId
   */
  async load(userId) {
    const key = `${userId}:outbox`;
    if (key === this.#key) return;
    const carried = this.entries;
    const before = this.#key;
    this.#key = key;
    await this.#write((stored) => {
      this.entries = [...stored, ...this.entries];
      return [...stored, ...carried];
    });
    await this.#device.values.remove(before);
    for (const { sessionId } of this.entries) this.#device.chats.show(sessionId);
  }

  /** Forget everything, also what is stored. */
  async empty() {
    const key = this.#key;
    this.#key = "";
    this.entries = [];
    this.#tries.clear();
    for (const line of this.#lines.values()) this.#device.ports.time.cancel(line.timer);
    this.#lines.clear();
    await this.#writes;
    if (key) await this.#device.values.remove(key);
  }

  /**
   * Store a message, then send it.
   * @param {Unsent} entry
   */
  async add(entry) {
    this.entries = [...this.entries, entry];
    this.#unwritten.add(entry.id);
    this.#device.chats.show(entry.sessionId);
    await this.#write((stored) => [...stored, entry]);
    this.#unwritten.delete(entry.id);
    this.#flush(entry.sessionId);
  }

  /**
   * Take a message out, because the service has it or the user gives it up.
   * @param {string} id
   */
  take(id) {
    const entry = this.find(id);
    if (!entry) return;
    this.entries = this.entries.filter((one) => one !== entry);
    this.#tries.delete(id);
    void this.#write((stored) => stored.filter((one) => one.id !== id));
    this.#device.chats.show(entry.sessionId);
    this.#flush(entry.sessionId);
  }

  /**
   * Handle the refusal of a message.
   * @param {string} id
   * @param {import("./errors.js").SesiError} error
   */
  refuse(id, error) {
    const entry = this.find(id);
    if (!entry) return;
    const { code, retryAfterSeconds } = error;
    const tries = this.#triesOf(id);
    const isSilence = code === "NETWORK";
    if (!isSilence) tries.silent = 0;
    if (code.endsWith("ERROR")) tries.failed++;
    if (tries.failed >= MOST_FAILURES) return this.#giveUp(entry, error);
    const pause = this.#device.ports.time.random() * longestPause(isSilence ? tries.silent : tries.failed);
    if (isTransient(error)) this.#hold(entry.sessionId, retryAfterSeconds ?? pause, code === "TOO_FAST");
    else this.#giveUp(entry, error);
  }

  /**
   * Show a message as refused.
   * @param {Unsent} entry
   * @param {import("./errors.js").SesiError} error
   */
  #giveUp(entry, { status, code, message, details }) {
    this.#tries.delete(entry.id);
    this.#replace(entry, { status, code, message, details });
    void this.#device.chats.refresh(entry.sessionId);
  }

  /**
   * Send a refused message once more.
   * @param {string} id
   */
  retry(id) {
    const entry = this.find(id);
    if (entry?.refusal) this.#replace(entry, null);
  }

  /** Send everything over a new socket. */
  resend() {
    this.#posting.clear(); // their network may be gone
    for (const sessionId of new Set(this.entries.map((entry) => entry.sessionId))) {
      if (!this.#line(sessionId).held) this.#sendAgain(sessionId);
    }
  }

  /** @param {string} sessionId */
  #flush(sessionId) {
    const line = this.#line(sessionId);
    if (line.held) return;
    const waiting = this.entries.filter((entry) => entry.sessionId === sessionId && !entry.refusal);
    if (waiting.length === 0) {
      this.#device.ports.time.cancel(line.timer);
      this.#lines.delete(sessionId);
    }
    for (const entry of waiting) {
      if (this.#unwritten.has(entry.id) || !this.#device.chat.isOpen) return;
      if (this.#transmit(entry, line, entry === waiting[0]) || line.slow) break;
    }
    if (waiting.length) line.timer ??= this.#device.ports.time.after(RESEND_MS, () => this.#sendAgain(sessionId));
  }

  /**
   * Send one message, unless its answer is awaited. Return whether later ones must wait for that answer.
   * @param {Unsent} entry
   * @param {Line} line
   * @param {boolean} isFirst of those without an answer; one over REST could overtake others
   */
  #transmit(entry, line, isFirst) {
    const { id, sessionId, content, metadata } = entry;
    const body = { client_message_id: id, content, ...(metadata && { metadata }) };
    const frame = { type: "send_message", ref: id, session_id: sessionId, ...body };
    const tooLarge = new TextEncoder().encode(JSON.stringify(frame)).length > FRAME_BYTES;
    const tries = this.#triesOf(id);
    const overRest = tooLarge || tries.silent >= MOST_SILENT;
    if (!line.inFlight.has(id) && !this.#posting.has(id) && (isFirst || !overRest)) {
      line.inFlight.add(id);
      tries.silent++;
      if (overRest) void this.#post(entry, body);
      else this.#device.chat.send(frame);
    }
    return overRest;
  }

  /**
   * @param {Unsent} entry
   * @param {object} body
   */
  async #post({ id, sessionId }, body) {
    this.#posting.add(id);
    try {
      const options = { path: { session_id: sessionId }, body, fields: ["client_message_id", "seq"] };
      this.#device.chats.stored(await this.#device.account.call(POST, options, true));
    } catch (error) {
      ignoreRefusal(error);
      this.refuse(id, /** @type {import("./errors.js").SesiError} */ (error));
    } finally {
      this.#posting.delete(id);
    }
  }

  /** @param {string} sessionId */
  #sendAgain(sessionId) {
    const line = this.#line(sessionId);
    this.#device.ports.time.cancel(line.timer);
    line.timer = null;
    line.held = false;
    line.inFlight.clear();
    this.#flush(sessionId);
  }

  /**
   * Stop a session's messages for some seconds, then send them again in their order.
   * @param {string} sessionId
   * @param {number} seconds
   * @param {boolean} slow
   */
  #hold(sessionId, seconds, slow) {
    const line = this.#line(sessionId);
    line.held = true;
    line.slow ||= slow;
    this.#device.ports.time.cancel(line.timer);
    line.timer = this.#device.ports.time.after(seconds * 1000, () => this.#sendAgain(sessionId));
  }

  /**
   * @param {Unsent} entry
   * @param {Unsent["refusal"]} refusal
   */
  #replace(entry, refusal) {
    entry.refusal = refusal;
    this.#line(entry.sessionId).inFlight.delete(entry.id);
    void this.#write((stored) => stored.map((one) => (one.id === entry.id ? entry : one)));
    this.#device.chats.show(entry.sessionId);
    this.#flush(entry.sessionId);
  }

  /**
   * Return a message that is here.
   * @param {string} id
   */
  find(id) {
    return this.entries.find((entry) => entry.id === id);
  }

  /** @param {string} id */
  #triesOf(id) {
    const tries = this.#tries.get(id) ?? { silent: 0, failed: 0 };
    this.#tries.set(id, tries);
    return tries;
  }

  /** @param {string} sessionId */
  #line(sessionId) {
    const line = this.#lines.get(sessionId) ?? { inFlight: new Set(), slow: false, held: false, timer: null };
    this.#lines.set(sessionId, line);
    return line;
  }

  /**
   * Change the stored messages. Other tabs of this user change them, too.
   * @param {(stored: Unsent[]) => Unsent[]} change
   */
  #write(change) {
    const key = this.#key;
    this.#writes = this.#writes.then(async () => {
      await this.#device.values.set(key, change((await this.#device.values.get(key)) ?? []));
    });
    return this.#writes;
  }
}
