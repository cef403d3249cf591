import { digestOf } from "./digest.js";
import { isTransient } from "./rest.js";
import { Transcript } from "./transcript.js";

/** @import { SesiError } from "./errors.js" */
/** @import { Message } from "./transcript.js" */
/** @import { Entry } from "./chats.js" */

const REF = "sync:";
const REREAD_WITHIN_MS = 10_000;

/** Completes transcripts by `sync`, and reads them again when the service's database was replaced. */
export class Sync {
  #device;
  /** @type {string | null} */
  #epoch = null;
  #rereadWaits = false;

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
  }

  /** Begin with a new socket: answers to requests on the older one will not come. */
  restart() {
    for (const entry of this.#device.chats.entries.values()) entry.syncing = false;
  }

  /** Forget the epoch, because another user has signed in. */
  clear() {
    this.#epoch = null;
  }

  /**
   * Ask for the messages behind those that are known, unless that was asked.
   * @param {Entry | undefined} entry
   */
  request(entry) {
    if (!entry || entry.syncing || (entry.reread && this.#rereadWaits)) return;
    const { id } = entry.session;
    const { transcript } = entry.reread ?? entry;
    const after = transcript.last;
    entry.asked = { transcript, after };
    entry.syncing = this.#device.chat.send({ type: "sync", ref: REF + id, session_id: id, after });
  }

  /**
   * Handle an answer to `sync`, and ask for the next page.
   * @param {{ session_id: string, messages: Message[], more: boolean, epoch: string, digest?: string | null }} page
   */
  receive({ session_id, messages, more, epoch, digest }) {
    const entry = this.#device.chats.entries.get(session_id);
    if (!entry) return;
    entry.syncing = false;
    if (this.seeEpoch(epoch)) return;
    this.#device.chats.add(entry, messages);
    const { transcript } = entry.reread ?? entry;
    if (!entry.asked || entry.asked.transcript !== transcript) return this.request(entry); // the reread has begun since
    const { hasHole } = transcript;
    if (digest) void this.#compare(entry, transcript, messages.at(-1)?.seq ?? entry.asked.after, digest);
    if (more || (hasHole && messages.length)) return this.request(entry);
    if (!this.#rereadWaits) this.#finishReread(entry);
    if (!digest) this.#leaveUnchecked(entry);
  }

  /**
   * Repeat a `sync` that was refused for the moment. Return false if the error is about something else.
   * @param {string | undefined} ref
   * @param {SesiError} error
   */
  refused(ref, error) {
    if (!ref?.startsWith(REF)) return false;
    if (!isTransient(error)) return true;
    const entry = this.#device.chats.entries.get(ref.slice(REF.length));
    const { chat } = this.#device;
    const { generation } = chat;
    const { after, random } = this.#device.ports.time;
    after((error.retryAfterSeconds ?? 0.5 + random()) * 1000, () => {
      if (!entry || generation !== chat.generation) return;
      entry.syncing = false;
      this.request(entry);
    });
    return true;
  }

  /**
   * Remember the epoch. If it has changed, read all transcripts again after a random wait, and return true.
   * @param {string} epoch
   */
  seeEpoch(epoch) {
    const before = this.#epoch;
    this.#epoch = epoch;
    if (before === null || before === epoch) return false;
    this.#device.feed.forgetOrder();
    for (const entry of this.#device.chats.entries.values()) this.#beginReread(entry);
    this.#rereadWaits = true;
    const { after, random } = this.#device.ports.time;
    after(random() * REREAD_WITHIN_MS, () => {
      this.#rereadWaits = false;
      for (const entry of this.#device.chats.entries.values()) if (entry.reread) this.request(entry);
    });
    return true;
  }

  /**
   * Compare a transcript with the service's digest up to `seq`. If they differ, read it again once.
   * @param {Entry} entry
   * @param {Transcript} transcript
   * @param {number} seq
   * @param {string} expected
   */
  async #compare(entry, transcript, seq, expected) {
    const { sha256 } = this.#device.ports;
    const found = sha256 && (await digestOf(transcript, seq, sha256));
    const { chats } = this.#device;
    const { id } = entry.session;
    if (chats.entries.get(id) !== entry || transcript !== (entry.reread ?? entry).transcript) return;
    if (!found) {
      this.#leaveUnchecked(entry);
    } else if (found === expected) {
      if (!entry.reread) chats.show(id, { digest: "equal" });
    } else if (entry.digest === "reread" || entry.digest === "different") {
      chats.show(id, { digest: "different" });
      this.#device.emit({ type: "digest_mismatch", session_id: id, seq, expected, found });
    } else {
      this.#beginReread(entry);
      chats.show(id, { digest: "reread" });
      this.request(entry);
    }
  }

  /**
   * Let the next digest begin again, if a transcript that was read again can't be compared.
   * @param {Entry} entry
   */
  #leaveUnchecked(entry) {
    if (!entry.reread && entry.digest === "reread") this.#device.chats.show(entry.session.id, { digest: "unchecked" });
  }

  /** @param {Entry} entry */
  #beginReread(entry) {
    const own = [...(entry.reread?.own ?? []), ...entry.transcript.own()];
    entry.reread = { transcript: new Transcript(this.#device.role), own };
  }

  /** @param {Entry} entry */
  #finishReread(entry) {
    if (!entry.reread) return;
    const { own, transcript } = entry.reread;
    const stored = new Set(transcript.own().map((message) => message.client_message_id));
    entry.transcript = transcript;
    entry.reread = null;
    for (const { client_message_id: id, session_id: sessionId, content, metadata, blanked } of own) {
      if (!stored.has(id) && !blanked)
        void this.#device.outbox.add({ id, sessionId, content, metadata, refusal: null });
    }
    this.#device.chats.show(entry.session.id);
  }
}
