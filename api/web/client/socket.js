import { longestPause } from "./rest.js";

/** @import { SocketPort } from "./types.d.ts" */

const ANSWER_MS = 10_000; // for `auth_ok` after opening, and for any frame after `ping`
const STABLE_MS = 10_000;

/**
 * What each close code asks of a client; all others mean: reconnect with backoff. `rangeS` is the least upper end of
 * the random wait, `renew` refreshes the token first, `final` ends the connection.
 * @type {Record<number, { rangeS?: number, renew?: boolean, final?: boolean }>}
 */
const CLOSE_CODES = {
  1012: { rangeS: 5 },
  1013: { rangeS: 10 },
  4401: { renew: true },
  4403: { final: true },
  4409: { final: true },
};
const REVOKED = 4403;

/** One path's connection: at most one socket at a time, opened again until `stop`. */
export class Connection {
  /** Whether the present socket is authenticated. */
  isOpen = false;
  isStopped = true;
  /** Counts sockets, so that a callback of an older one is ignored. */
  generation = 0;
  #device;
  #path;
  #url;
  #failures = 0;
  /** @type {SocketPort | null} */
  #port = null;
  #token = "";
  #silenceMs = 0;
  #openedAt = 0;
  /** @type {Record<string, number>} when a frame was sent that is still to be answered, by the answer's type */
  #asked = {};
  /** @type {unknown} */
  #timer = null;
  #waits = false;

  /**
   * @param {import("./device.js").Device} device
   * @param {string} sockets base address
   * @param {"chat" | "pairing"} path
   */
  constructor(device, sockets, path) {
    this.#device = device;
    this.#path = path;
    this.#url = `${sockets.replace(/\/$/, "")}/ws/${path}`;
  }

  /** Connect, and stay connected. */
  start() {
    if (!this.isStopped) return;
    this.isStopped = false;
    this.#connect();
  }

  /** Disconnect, and stay so. */
  stop() {
    this.isStopped = true;
    this.#leave();
  }

  /**
   * Send a frame. Return false without an authenticated socket.
   * @param {object} frame
   */
  send(frame) {
    if (this.isOpen) this.#put(frame);
    return this.isOpen;
  }

  /**
   * React to a change of the page or the network: an open socket may be dead, and a wait may be over.
   * @param {"visible" | "online"} change
   */
  wake(change) {
    if (this.isStopped) return;
    if (this.isOpen) this.#ping();
    else if (this.#waits && (change === "online" || this.#timer === null)) this.#connect();
  }

  #connect() {
    this.#leave();
    const token = this.#device.tokens.current?.access;
    if (this.isStopped || !token) return;
    this.#token = token;
    const generation = this.generation;
    /** @param {() => void} act */
    const ifCurrent = (act) => generation === this.generation && act();
    this.#expectWithin(ANSWER_MS, () => this.#lost(null));
    this.#port = this.#device.ports.open(this.#url, {
      opened: () => ifCurrent(() => this.#ask("auth_ok", { type: "auth", token })),
      received: (text) => ifCurrent(() => this.#receive(JSON.parse(text))),
      closed: (code, retryAfterS = null) => ifCurrent(() => this.#lost(code, retryAfterS)),
    });
  }

  /** @param {any} frame */
  #receive(frame) {
    if (this.isOpen) this.#expectWithin(this.#silenceMs, () => this.#ping());
    if (frame.type === "auth_ok") this.#authenticated(frame);
    else if (frame.type === "pong") this.#measure(frame);
    else if (frame.type === "auth_expiring") this.#renew();
    else this.#device.received(this.#path, frame);
  }

  /** @param {any} frame */
  #authenticated(frame) {
    this.#measure(frame);
    const isNew = !this.isOpen;
    if (isNew) {
      this.isOpen = true;
      this.#openedAt = this.#device.ports.time.mono();
      this.#silenceMs = frame.ping_seconds * 1000;
      this.#expectWithin(this.#silenceMs, () => this.#ping());
      this.#device.showConnection();
    }
    this.#device.authenticated(this.#path, frame, isNew);
  }

  /** Put a new token onto the open socket. */
  async #renew() {
    const { generation } = this;
    await this.#device.tokens.renew(this.#token).catch(() => {}); // the service will close with 4401
    const token = this.#device.tokens.current?.access;
    if (generation !== this.generation || !token || token === this.#token) return;
    this.#token = token;
    this.#ask("auth_ok", { type: "auth", token });
  }

  /**
   * @param {number | null} code
   * @param {number | null} [retryAfterS]
   */
  async #lost(code, retryAfterS = null) {
    const livedMs = this.isOpen ? this.#device.ports.time.mono() - this.#openedAt : 0;
    const { rangeS = 0, renew, final } = CLOSE_CODES[code ?? 0] ?? {};
    const { after, random } = this.#device.ports.time;
    this.#leave();
    if (final) {
      this.isStopped = true;
      if (code === REVOKED) void this.#device.account.end("revoked");
    }
    this.#device.showConnection();
    const { generation } = this;
    if (renew) await this.#device.tokens.renew(this.#token).catch(() => {}); // tried again after the next 4401
    if (this.isStopped || generation !== this.generation) return;
    this.#waits = true;
    if (livedMs >= STABLE_MS) this.#failures = 0;
    // Random, so that the clients of a stopped process do not return together.
    const waitS =
      retryAfterS === null ? random() * Math.max(longestPause(this.#failures++), rangeS) : retryAfterS + random();
    this.#timer = after(waitS * 1000, () => {
      this.#timer = null;
      if (this.#device.role === "mitra" || !this.#device.ports.page.hidden()) this.#connect();
    });
  }

  /** Give the present socket up, and any wait for the next one. */
  #leave() {
    this.generation++;
    this.isOpen = this.#waits = false;
    this.#port?.close();
    this.#port = null;
    this.#asked = {};
    this.#device.ports.time.cancel(this.#timer);
    this.#timer = null;
  }

  #ping() {
    this.#ask("pong", { type: "ping" });
    this.#expectWithin(ANSWER_MS, () => this.#lost(null));
  }

  /**
   * @param {number} ms
   * @param {() => void} otherwise
   */
  #expectWithin(ms, otherwise) {
    this.#device.ports.time.cancel(this.#timer);
    this.#timer = this.#device.ports.time.after(ms, otherwise);
  }

  /**
   * Send a frame whose answer measures the service's clock.
   * @param {"auth_ok" | "pong"} answer
   * @param {object} frame
   */
  #ask(answer, frame) {
    this.#asked[answer] ??= this.#device.ports.time.mono();
    this.#put(frame);
  }

  /** @param {{ type: string, server_time: string, time_scale?: number }} frame */
  #measure({ type, server_time, time_scale }) {
    const began = this.#asked[type];
    if (began !== undefined) this.#device.clock.learn(server_time, began, this.#device.ports.time.mono(), time_scale);
    delete this.#asked[type];
  }

  /** @param {object} frame */
  #put(frame) {
    this.#port?.send(JSON.stringify(frame));
  }
}
