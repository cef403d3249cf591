/** A world for the library with virtual time: fake sockets, requests, storage and locks. Nothing in it waits. */

import assert from "node:assert/strict";
import { createClient } from "../../api/web/client/index.js";

const API = "http://api.test";
const SOCKETS = "ws://sockets.test";
export const START = Date.parse("2026-11-21T06:30:00Z"); // the service's time when a world begins

/** Return an id that is recognized in failures: `id("s", 1)` for the first session. */
export const id = (kind, number) =>
  `019aa4b6-5f00-7000-8000-${kind.charCodeAt(0).toString(16)}${String(number).padStart(10, "0")}`;

/** Let all promises that can be settled be settled. */
export async function settle() {
  for (let n = 0; n < 60; n++) await null;
}

/** One fake socket that the library has opened. */
class FakeSocket {
  constructor(url, events) {
    this.path = url.slice(SOCKETS.length);
    this.events = events;
    this.sent = [];
    this.read = 0;
    this.isClosed = false;
  }

  /** Return the frames that were sent since the last call. */
  take() {
    const frames = this.sent.slice(this.read);
    this.read = this.sent.length;
    return frames;
  }
}

export class World {
  now = 0; // monotonic milliseconds
  wallIsAhead = 0; // milliseconds by which the device's calendar is wrong
  dice = [0.5]; // what `random` returns, over and over
  hidden = false;
  sockets = [];
  requests = []; // those without an answer
  stored = new Map();
  storageFails = false;
  written = Promise.resolve(); // writes to the storage wait for it
  locks = [];
  told = [];
  #timers = [];
  #rolled = 0;
  made = 0; // ids, also in earlier runs on the device
  #listeners = new Set();

  get ports() {
    const cancel = (timer) => {
      this.#timers = this.#timers.filter((one) => one !== timer);
    };
    const after = (ms, callback) => {
      const timer = { at: this.now + ms, callback };
      this.#timers.push(timer);
      return timer;
    };
    const every = (ms, callback) => {
      let timer = null;
      const run = () => {
        timer = after(ms, run);
        callback();
      };
      timer = after(ms, run);
      return () => cancel(timer);
    };
    return {
      open: (url, events) => {
        const socket = new FakeSocket(url, events);
        this.sockets.push(socket);
        return {
          send: (text) => {
            assert.equal(socket.isClosed, false, "sent on a closed socket");
            socket.sent.push(JSON.parse(text));
          },
          close: () => {
            socket.isClosed = true;
          },
        };
      },
      fetch: ({ method, url, headers, body }) =>
        new Promise((resolve, reject) => {
          const route = `${method} ${url.slice(API.length)}`;
          this.requests.push({ route, headers, body: body === null ? null : JSON.parse(body), resolve, reject });
        }),
      time: {
        wall: () => START + this.now + this.wallIsAhead,
        mono: () => this.now,
        random: () => this.dice[this.#rolled++ % this.dice.length],
        after,
        cancel,
        every,
      },
      id: () => id("m", ++this.made),
      lock: async (name, timeoutMs, work) => {
        this.locks.push({ name, timeoutMs });
        return work();
      },
      page: {
        hidden: () => this.hidden,
        listen: (listener) => {
          this.#listeners.add(listener);
          return () => this.#listeners.delete(listener);
        },
      },
    };
  }

  get storage() {
    const access = async (act) => {
      if (this.storageFails) throw new Error("the storage has failed");
      return act();
    };
    return {
      get: (key) => access(() => this.stored.get(key) ?? null),
      set: (key, value) =>
        access(async () => {
          await this.written;
          this.stored.set(key, value);
        }),
      remove: (key) => access(() => void this.stored.delete(key)),
    };
  }

  /** Make a client of a signed-in user and start it. */
  async client(role = "customer", options = {}) {
    if (!this.stored.has("tokens")) {
      this.stored.set("tokens", JSON.stringify({ access: "A1", refresh: "R1", user: user(role) }));
    }
    const client = this.newClient(role, options);
    await client.start();
    return client;
  }

  /** Make a client without starting it. */
  newClient(role = "customer", options = {}) {
    const client = createClient({
      role,
      api: API,
      sockets: SOCKETS,
      storage: this.storage,
      ports: this.ports,
      ...options,
    });
    client.on((frame) => this.told.push(frame));
    return client;
  }

  /** Return the newest socket of a path. */
  socket(path = "/ws/chat") {
    const socket = this.sockets.findLast((one) => one.path === path);
    assert.ok(socket, `${path} was not opened`);
    return socket;
  }

  /** Return how many sockets of a path were opened. */
  opened(path = "/ws/chat") {
    return this.sockets.filter((one) => one.path === path).length;
  }

  /** Open the newest socket of a path, take its `auth` and answer it with `auth_ok`. */
  async authenticate(path = "/ws/chat", snapshot = {}) {
    const socket = this.socket(path);
    socket.events.opened();
    const [auth] = socket.take();
    assert.equal(auth.type, "auth");
    await this.serve({ type: "auth_ok", ...this.hello(path), ...snapshot }, path);
    return auth.token;
  }

  /** Return the fields of an `auth_ok` with an empty snapshot. */
  hello(path) {
    const lists = path === "/ws/chat" ? { sessions: [] } : { searching: null, requests: [] };
    return { epoch: "e1", ping_seconds: 25, server_time: this.serverTime(), ...lists };
  }

  serverTime() {
    return new Date(START + this.now).toISOString();
  }

  /** Send a frame on the newest socket of a path. */
  async serve(frame, path = "/ws/chat") {
    this.socket(path).events.received(JSON.stringify(frame));
    await settle();
  }

  /** Close the newest socket of a path. */
  async close(code = null, path = "/ws/chat", retryAfterSeconds = null) {
    this.socket(path).events.closed(code, retryAfterSeconds);
    await settle();
  }

  /** Take the oldest request, which must be of this route. */
  async request(route) {
    await settle();
    const request = this.requests.shift();
    assert.ok(request, `${route} was not requested`);
    assert.equal(request.route, route);
    return request;
  }

  /** Take the oldest request and answer it; status 0 loses the answer. */
  async answer(route, status, body = null, headers = {}) {
    const request = await this.request(route);
    const all = { "X-Server-Time": this.serverTime(), ...headers };
    const text = body === null ? "" : JSON.stringify(body);
    if (status === 0) request.reject(new TypeError("no network"));
    else request.resolve({ status, header: (name) => all[name] ?? null, text });
    await settle();
    return request;
  }

  /** Let time pass; timers that are due run in their order. */
  async advance(ms) {
    await settle();
    const end = this.now + ms;
    for (;;) {
      const due = this.#timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (!due) break;
      this.now = Math.max(this.now, due.at);
      this.#timers = this.#timers.filter((timer) => timer !== due);
      due.callback();
      await settle();
    }
    this.now = end;
  }

  /** Report a change of the page or the network. */
  async wake(change) {
    for (const listener of this.#listeners) listener(change);
    await settle();
  }
}

/** Return a refusal's body. */
export const refusal = (code, more = {}) => ({ error: { code, message: code, ...more } });

/** Return a user of a role. */
export function user(role, more = {}) {
  const names = { display_name: role === "mitra" ? "Dewi" : "Ani", created_at: "2026-11-21T06:00:00Z" };
  if (role === "mitra") return { id: id("u", 2), ...names, phone: "+628111", is_active: true, ...more };
  return { id: id("u", 1), ...names, is_anonymous: true, phone: null, usp_seen: false, ...more };
}

/** Return the answer of a sign-in or refresh. */
export const tokens = (number, role = "customer", more = {}) => ({
  access_token: `A${number}`,
  refresh_token: `R${number}`,
  token_type: "Bearer",
  expires_in: 900,
  [role]: user(role, more),
});

/** Return an active session of 12 minutes. */
export const session = (number = 1, more = {}) => ({
  id: id("s", number),
  customer: { id: id("u", 1), display_name: "Ani" },
  mitra: { id: id("u", 2), display_name: "Dewi" },
  status: "active",
  topic_sensitivity: "regular",
  expires_at: "2026-11-21T06:42:00Z",
  last_seq: 0,
  unread_count: 0,
  search: null,
  closures: [],
  extension: null,
  ...more,
});

/** Return a message of the first session; the customer's unless `more` says otherwise. */
export const message = (seq, content, more = {}) => ({
  id: id("f", seq),
  session_id: id("s", 1),
  seq,
  sender_type: "mitra",
  sender_id: id("u", 2),
  client_message_id: id("x", seq),
  type: "text",
  content,
  metadata: null,
  status: "sent",
  created_at: "2026-11-21T06:31:00Z",
  delivered_at: null,
  read_at: null,
  blanked: false,
  ...more,
});

/** Return the contents of a chat's messages. */
export const contents = (client, number = 1) => client.state.chats[id("s", number)].messages.map((one) => one.content);
