import { Account } from "./account.js";
import { Chats } from "./chats.js";
import { EphemeralFrames } from "./ephemeral_frames.js";
import { ackFrame, Feed, refusedAck } from "./feed.js";
import { Outbox } from "./outbox.js";
import { Payments } from "./payments.js";
import { Presence } from "./presence.js";
import { Requests } from "./requests.js";
import { Rest } from "./rest.js";
import { Search } from "./search.js";
import { ServiceClock } from "./service_clock.js";
import { Connection } from "./socket.js";
import { Values } from "./storage.js";
import { Store } from "./store.js";
import { Sync } from "./sync.js";
import { Tokens } from "./tokens.js";

/** @import { Account as User, DeviceOptions, FrameListener, State } from "./types.d.ts" */

const UNSHOWN = 200; // as many events as the service repeats to a device

/** @type {State} */
const NOTHING = {
  connection: "stopped",
  user: null,
  signedOut: null,
  saved: true,
  chats: {},
  search: null,
  searchEnd: null,
  payments: {},
  requests: [],
  closedRequests: [],
  status: null,
  statusReason: null,
};

/** The parts of the library, put together: who gets which frame, and what a sign-in and its end change. */
export class Device extends Store {
  feed = new Feed();
  /** @type {Set<FrameListener>} */
  listeners = new Set();
  isStarted = false;
  #stopListening = () => {};
  /** @type {Map<string, object>} acknowledgements that said `shown: false`, by event or session */
  #unshown = new Map();

  /** @param {DeviceOptions} options */
  constructor({ role, api, sockets, storage, locale = "id", platform, appVersion, ports }) {
    super(NOTHING);
    this.role = role;
    this.locale = locale;
    this.ports = ports;
    this.clock = new ServiceClock(this.ports.time);
    this.values = new Values(storage, () => this.update({ saved: false }));
    this.rest = new Rest(this, api, { "X-Platform": platform, "X-App-Version": appVersion });
    this.tokens = new Tokens(this);
    this.account = new Account(this);
    this.outbox = new Outbox(this);
    this.chats = new Chats(this);
    this.sync = new Sync(this);
    this.ephemeral = new EphemeralFrames(this);
    this.payments = new Payments(this);
    this.search = new Search(this);
    this.requests = new Requests(this);
    this.presence = new Presence(this);
    this.chat = new Connection(this, sockets, "chat");
    this.pairing = new Connection(this, sockets, "pairing");
  }

  /** Read the stored sign-in, and connect if there is one. */
  async start() {
    if (this.isStarted) {
      this.#connect();
      return;
    }
    this.isStarted = true;
    this.#stopListening = this.ports.page.listen((change) => {
      this.chat.wake(change);
      this.pairing.wake(change);
      this.#acknowledgeShown();
      void this.payments.refreshPending();
    });
    await this.tokens.load();
    const user = this.tokens.current?.user;
    if (user) await this.began(user);
  }

  /** Disconnect, and keep the stored sign-in. */
  stop() {
    this.isStarted = false;
    this.#stopListening();
    this.#disconnect();
  }

  /**
   * Store and show a changed user.
   * @param {User} user
   */
  async setUser(user) {
    await this.tokens.setUser(user);
    this.update({ user });
    return user;
  }

  /**
   * Use the tokens of a user who has signed in.
   * @param {User} user
   */
  async began(user) {
    this.#disconnect();
    if (this.state.user?.id !== user.id) this.chats.clear();
    this.update({ user, signedOut: null });
    await this.outbox.load(user.id);
    if (this.isStarted) this.#connect();
  }

  /**
   * Forget the user and everything of theirs. It is shown when it is stored: a page that is closed then must not find
   * the tokens again.
   * @param {"self" | "revoked" | "expired"} reason
   */
  async ended(reason) {
    this.#disconnect();
    const done = [this.payments.forgetKey(), this.tokens.forget(reason), this.outbox.empty()];
    this.#unshown.clear();
    this.chats.clear();
    const { saved, user } = this.state;
    this.update({ ...NOTHING, saved, user });
    await Promise.all(done);
    if (!this.tokens.current) this.update({ user: null, signedOut: reason }); // else the next sign-in was quicker
  }

  #connect() {
    if (!this.tokens.current) return;
    this.chat.start();
    this.pairing.start();
    this.payments.watch();
    this.showConnection();
  }

  #disconnect() {
    this.presence.stop();
    this.chat.stop();
    this.pairing.stop();
    this.showConnection();
  }

  /** Show the state of both sockets as one. */
  showConnection() {
    const isOpen = this.chat.isOpen && this.pairing.isOpen;
    const isStopped = this.chat.isStopped || this.pairing.isStopped;
    this.update({ connection: isStopped ? "stopped" : isOpen ? "open" : "connecting" });
  }

  /**
   * Handle an `auth_ok`.
   * @param {"chat" | "pairing"} path
   * @param {any} frame
   * @param {boolean} isNew whether it is the first one of a socket
   */
  authenticated(path, frame, isNew) {
    if (path === "chat") this.chats.authenticated(frame, isNew);
    else if (this.role === "customer") this.search.authenticated(frame);
    else {
      this.requests.replace(frame.requests);
      if (isNew) void this.presence.refresh();
    }
    this.#acknowledgeShown();
  }

  /**
   * Send an acknowledgement; while the user can't see the app, it says so.
   * @param {"chat" | "pairing"} path
   * @param {{ type: "ack", event_id: string } | { type: "delivered", session_id: string, up_to: number }} frame
   */
  acknowledge(path, frame) {
    if (!this.ports.page.hidden()) {
      this[path].send(frame);
      return;
    }
    const key = frame.type === "ack" ? frame.event_id : frame.session_id;
    this[path].send({ ...frame, shown: false });
    this.#unshown.delete(key);
    this.#unshown.set(key, frame);
    if (this.#unshown.size > UNSHOWN) this.#unshown.delete(this.#unshown.keys().next().value ?? "");
  }

  /** Acknowledge what the user could not see, now that they can. */
  #acknowledgeShown() {
    if (this.ports.page.hidden() || !this.chat.isOpen) return;
    for (const frame of this.#unshown.values()) this.chat.send(frame);
    this.#unshown.clear();
  }

  /**
   * Handle any other frame, and acknowledge it if it is an event.
   * @param {"chat" | "pairing"} path
   * @param {any} frame
   */
  received(path, frame) {
    const refused = refusedAck(frame);
    const isEvent = frame.event_id !== undefined && frame.type !== "message";
    if (refused) {
      const wait = (frame.retry_after_seconds ?? 1) * 1000;
      this.ports.time.after(wait, () => this.acknowledge(path, ackFrame(refused)));
    } else if (!isEvent || this.feed.isNew(frame)) {
      const isShown = this.#handle(path, frame);
      if (isShown) this.emit(frame);
    }
    if (isEvent) this.acknowledge(path, ackFrame(frame.event_id));
  }

  /**
   * Give a frame to the listeners of the app.
   * @param {any} frame
   */
  emit(frame) {
    for (const listener of [...this.listeners]) queueMicrotask(() => listener(frame));
  }

  /**
   * Return whether the app should see a frame.
   * @param {"chat" | "pairing"} path
   * @param {any} frame
   */
  #handle(path, frame) {
    if (path === "chat") return this.chats.receive(frame);
    for (const part of [this.search, this.presence, this.requests]) part.receive(frame);
    return true;
  }
}
