import { Account } from "./account.js";
import { Chats } from "./chats.js";
import { REVOKED } from "./close_codes.js";
import { ignoreRefusal } from "./errors.js";
import { ackFrame, Feed, refusedAck } from "./feed.js";
import { Outbox } from "./outbox.js";
import { Payments } from "./payments.js";
import { defaultPorts } from "./ports.js";
import { Presence } from "./presence.js";
import { Requests } from "./requests.js";
import { Rest } from "./rest.js";
import { Search } from "./search.js";
import { ServiceClock } from "./service_clock.js";
import { Connection } from "./socket.js";
import { browserStorage, Values } from "./storage.js";
import { Store } from "./store.js";
import { Tokens } from "./tokens.js";

/** @import { Account as User, CallOptions, ClientOptions, FrameListener, Locale, State } from "./types.d.ts" */

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
export class Device {
  store = new Store(NOTHING);
  /** @type {Set<FrameListener>} */
  listeners = new Set();
  /** @type {Locale} */
  locale;
  #feed = new Feed();
  #isStarted = false;
  #stopListening = () => {};

  /** @param {ClientOptions} options */
  constructor({ role, api, sockets, storage, locale = "id", timeScale = 1, platform, appVersion, ports: given }) {
    const ports = { ...defaultPorts, ...given };
    /** @param {Partial<State>} patch */
    const publish = (patch) => this.store.update(patch);
    /** @type {Account["call"]} */
    const call = (route, options) => this.account.call(route, options);
    const app = { ...(platform && { "X-Platform": platform }), ...(appVersion && { "X-App-Version": appVersion }) };

    this.role = role;
    this.ports = ports;
    this.locale = locale;
    this.clock = new ServiceClock(ports.time, timeScale);
    this.values = new Values(storage ?? browserStorage(`sesi:${role}:`), () => publish({ saved: false }));
    this.rest = new Rest(api, ports, this.clock, () => ({
      "Accept-Language": this.locale,
      "X-Locale": this.locale,
      ...app,
    }));
    this.tokens = new Tokens(this.values, ports, this.rest, {
      renewed: (user) => publish({ user }),
      refused: () => void this.account.end("expired"),
    });
    this.account = new Account({
      role,
      rest: this.rest,
      tokens: this.tokens,
      began: (user) => this.#began(user),
      ended: (reason) => this.#ended(reason),
    });
    this.outbox = new Outbox(this.values, ports, {
      isOpen: () => this.chat.isOpen,
      send: (frame) => this.chat.send(frame),
      changed: (sessionId) => this.chats.show(sessionId),
      stored: (message) => this.chats.stored(message),
      refused: (sessionId) => void this.chats.refresh(sessionId),
      call: (route, options) => this.account.call(route, options, true),
    });
    this.chats = new Chats({
      role,
      ports,
      call,
      clock: this.clock,
      feed: this.#feed,
      outbox: this.outbox,
      send: (frame) => this.chat.send(frame),
      publish: (chats) => publish({ chats }),
    });
    this.payments = new Payments({
      ports,
      call,
      values: this.values,
      userId: () => this.tokens.current?.user.id ?? "",
      isConnected: () => this.pairing.isOpen,
      publish: (payments) => publish({ payments }),
    });
    this.search = new Search({
      publish,
      feed: this.#feed,
      payments: this.payments,
      readSession: (id) => this.chats.calls.read(id).catch(ignoreRefusal),
    });
    this.requests = new Requests({ publish, call, clock: this.clock, feed: this.#feed });
    this.presence = new Presence({
      publish,
      ports,
      scale: timeScale,
      send: (frame) => this.pairing.send(frame),
      call: (route, once) => this.account.call(route, {}, once),
    });
    const base = sockets.replace(/\/$/, "");
    /** @param {"chat" | "pairing"} path */
    const connection = (path) =>
      new Connection(
        `${base}/ws/${path}`,
        ports,
        this.clock,
        this.tokens,
        {
          authenticated: (frame, isNew) => this.#authenticated(path, frame, isNew),
          received: (frame) => this.#received(path, frame),
          changed: () => this.#showConnection(),
          ended: (code) => void (code === REVOKED && this.account.end("revoked")),
        },
        role === "customer",
      );
    this.chat = connection("chat");
    this.pairing = connection("pairing");
  }

  /** Read the stored sign-in, and connect if there is one. */
  async start() {
    if (this.#isStarted) {
      this.#connect();
      return;
    }
    this.#isStarted = true;
    this.#stopListening = this.ports.page.listen((change) => {
      this.chat.wake(change);
      this.pairing.wake(change);
      void this.payments.refreshPending();
    });
    await this.tokens.load();
    const user = this.tokens.current?.user;
    if (user) await this.#began(user);
  }

  /** Disconnect, and keep the stored sign-in. */
  stop() {
    this.#isStarted = false;
    this.#stopListening();
    this.#disconnect();
  }

  /**
   * Store and show a changed user.
   * @param {User} user
   */
  async setUser(user) {
    await this.tokens.setUser(user);
    this.store.update({ user });
    return user;
  }

  /** @param {User} user */
  async #began(user) {
    this.#disconnect();
    if (this.store.state.user?.id !== user.id) this.chats.clear();
    this.store.update({ user, signedOut: null });
    await this.outbox.load(user.id);
    if (this.#isStarted) this.#connect();
  }

  /** @param {"self" | "revoked" | "expired"} reason */
  async #ended(reason) {
    this.#disconnect();
    const forgetKey = this.payments.forgetKey();
    const forgetTokens = this.tokens.forget();
    for (const part of [this.chats, this.payments, this.search, this.requests, this.presence]) part.clear();
    this.store.update({ user: null, signedOut: reason });
    await Promise.all([forgetKey, forgetTokens, this.outbox.empty()]);
  }

  #connect() {
    if (!this.tokens.current) return;
    this.chat.start();
    this.pairing.start();
    this.#showConnection();
  }

  #disconnect() {
    this.presence.stop();
    this.chat.stop();
    this.pairing.stop();
    this.#showConnection();
  }

  #showConnection() {
    const sockets = [this.chat, this.pairing];
    const isOpen = sockets.every((socket) => socket.isOpen);
    const isStopped = sockets.some((socket) => socket.isStopped);
    this.store.update({ connection: isStopped ? "stopped" : isOpen ? "open" : "connecting" });
  }

  /**
   * @param {"chat" | "pairing"} path
   * @param {any} frame
   * @param {boolean} isNew
   */
  #authenticated(path, frame, isNew) {
    if (path === "chat") this.chats.authenticated(frame, isNew);
    else if (this.role === "customer") this.search.authenticated(frame);
    else {
      this.requests.replace(frame.requests);
      if (isNew) void this.presence.refresh();
    }
  }

  /**
   * @param {"chat" | "pairing"} path
   * @param {any} frame
   */
  #received(path, frame) {
    const refused = refusedAck(frame);
    const isEvent = frame.event_id !== undefined && frame.type !== "message";
    if (refused) {
      const wait = (frame.retry_after_seconds ?? 1) * 1000;
      this.ports.time.after(wait, () => this[path].send(ackFrame(refused)));
    } else if (!isEvent || this.#feed.isNew(frame.event_id)) {
      const isShown = path === "chat" ? this.chats.receive(frame) : this.#receivePairing(frame);
      if (isShown) for (const listener of [...this.listeners]) queueMicrotask(() => listener(frame));
    }
    if (isEvent) this[path].send(ackFrame(frame.event_id));
  }

  /** @param {any} frame */
  #receivePairing(frame) {
    if (this.role === "customer") return this.search.receive(frame);
    this.presence.receive(frame);
    return this.requests.receive(frame);
  }
}
