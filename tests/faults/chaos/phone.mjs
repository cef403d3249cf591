import { createClient, SesiError } from "../../../api/web/client/index.js";
import { act } from "./acts.mjs";
import { startDevice } from "./device.mjs";
import { Network } from "./network.mjs";
import { Shown } from "./shown.mjs";

/** @import { Client } from "../../../api/web/client/index.js" */
/** @import { Device } from "./device.mjs" */
/** @import { Role, State } from "../../../api/web/client/types.d.ts" */

/**
 * @typedef {object} Waiting
 * @property {string} sessionId
 * @property {(ack: object) => void} resolve
 * @property {(error: unknown) => void} reject
 */

/** One phone of a chaos run: an app that is the library alone, on a network of its own. */
export class Phone {
  #role;
  #headers;
  #violation;
  #network = new Network();
  #api = "";
  #sockets = "";
  /** @type {Map<string, string>} */
  #stored = new Map();
  #shown;
  /** @type {Map<string, Waiting>} messages without an acknowledgement, by `clientMessageId` */
  #waiting = new Map();
  /** @type {Set<(error: SesiError) => void>} calls that end without an answer when the app is killed */
  #calls = new Set();
  /** @type {Set<string>} extensions that were handed out */
  #extensions = new Set();
  /** @type {string[]} */
  #log = [];
  /** @type {Device | null} */
  #device = null;
  /** @type {Client | null} */
  #client = null;
  #starting = Promise.resolve(); // the app's last start: a user writes when it has ended

  /**
   * @param {Role} role
   * @param {Record<string, string>} headers sent with each request
   * @param {(what: string) => void} violation
   */
  constructor(role, headers, violation) {
    this.#role = role;
    this.#headers = headers;
    this.#violation = violation;
    this.#shown = new Shown(violation);
  }

  /**
   * Connect the phone's network, and start the app.
   * @param {string} api
   * @param {string[]} sockets of all processes: an app that is bound to one has no connection while it is killed again
   *   before the app's next attempt, which may be 30 s later
   */
  async begin(api, sockets) {
    this.#api = await this.#network.lead(api);
    this.#sockets = await this.#network.lead(...sockets);
    this.#starting = this.#start();
    await this.#starting;
  }

  /** Kill the app without a warning, and start it with what is stored. */
  async restart() {
    this.#note("restart");
    this.#device?.kill();
    this.#network.cut();
    for (const reject of this.#calls) reject(new SesiError(0, { code: "NETWORK", message: "The app was killed." }));
    this.#starting = this.#start();
    await this.#starting;
  }

  async #start() {
    this.#shown.restart();
    const device = startDevice(this.#stored, this.#headers, this.#violation, (what) => this.#note(what));
    const { ports, storage } = device;
    const client = createClient({
      role: this.#role,
      api: this.#api,
      sockets: this.#sockets,
      locale: "en",
      ports,
      storage,
    });
    this.#device = device;
    this.#client = client;
    let { connection, signedOut } = client.state;
    client.on((frame) => client === this.#client && this.#shown.checkEvent(frame));
    client.subscribe((state) => {
      if (client !== this.#client) return;
      if (state.connection !== connection) this.#note(state.connection);
      if (state.signedOut !== null && signedOut === null) this.#note(`signed out: ${state.signedOut}`);
      ({ connection, signedOut } = state);
      this.#shown.check(state);
      this.#settle(state);
    });
    await client.start();
  }

  /** Reset the phone's connections. */
  cut() {
    this.#note("cut");
    this.#network.cut();
  }

  /**
   * Let the network carry nothing for some time.
   * @param {number} seconds
   */
  async hang(seconds) {
    this.#note(`hang for ${seconds} s`);
    await this.#network.hang(seconds);
  }

  /**
   * Call a route. Raises SesiError, also when the app is killed before the answer.
   * @param {string} route method and path
   * @param {object} [query]
   * @param {object} [body]
   * @returns {Promise<unknown>}
   */
  call(route, query, body) {
    return this.#answered((client) => act(client, route, query, body));
  }

  /**
   * Sign in as a new customer with a name, and return the customer. Raises SesiError.
   * @param {string} name
   */
  signInAnonymously(name) {
    return this.#answered(async (client) => {
      await client.signInAnonymously();
      return client.setDisplayName(name);
    });
  }

  /**
   * Have a code sent. Raises SesiError.
   * @param {string} number
   */
  requestCode(number) {
    return this.#answered((client) => client.requestCode(number));
  }

  /**
   * Sign in with a code, and return the user. Raises SesiError.
   * @param {string} code
   * @param {string} requestId
   */
  verifyCode(code, requestId) {
    return this.#answered((client) => client.verifyCode(requestId, code));
  }

  /**
   * Send a message. The promise is kept when the phone shows the message with its `seq`, also after a restart.
   * @param {string} sessionId
   * @param {string} content
   * @returns {Promise<object>}
   */
  async say(sessionId, content) {
    await this.#starting;
    return new Promise((resolve, reject) => {
      this.#waiting.set(this.client.send(sessionId, content), { sessionId, resolve, reject });
    });
  }

  /**
   * Mark what is shown as read.
   * @param {string} sessionId
   */
  mark(sessionId) {
    this.client.markRead(sessionId);
  }

  /** Return an extension that the mitra was asked for and that was not returned before, or null. */
  nextExtension() {
    for (const { extension } of Object.values(this.client.state.chats)) {
      if (extension?.status !== "pending" || this.#extensions.has(extension.id)) continue;
      this.#extensions.add(extension.id);
      return extension;
    }
    return null;
  }

  /**
   * Return what the phone shows of a session, once it shows `count` messages or `seconds` are over.
   * @param {string} sessionId
   * @param {number} count
   * @param {number} seconds
   */
  async transcript(sessionId, count, seconds) {
    const wasKnown = sessionId in this.client.state.chats;
    if (!wasKnown) await this.client.openChat(sessionId);
    while (this.#chat(sessionId)?.hasEarlier) await this.client.loadEarlier(sessionId);
    await this.#until(() => (this.#chat(sessionId)?.messages.length ?? 0) >= count, seconds);
    return { wasKnown, status: this.#chat(sessionId)?.session.status, messages: this.#chat(sessionId)?.messages ?? [] };
  }

  /** Describe the app's latest connections. */
  describe() {
    return `${this.client.state.connection}; ${this.#log.slice(-20).join(" | ")}`;
  }

  /** Stop the app and the network. */
  async stop() {
    this.#device?.kill();
    this.#network.close();
  }

  get client() {
    if (this.#client === null) throw new Error("The phone has not begun.");
    return this.#client;
  }

  /** @param {string} sessionId */
  #chat(sessionId) {
    return this.client.state.chats[sessionId];
  }

  /** @param {State} state */
  #settle(state) {
    for (const [id, { sessionId, resolve, reject }] of this.#waiting) {
      const message = state.chats[sessionId]?.messages.find((one) => one.clientMessageId === id);
      if (!message || message.state === "sending") continue;
      this.#waiting.delete(id);
      if (message.state === "refused") {
        this.client.discard(id);
        reject(message.error);
      } else resolve({ client_message_id: id, id: message.id, seq: message.seq });
    }
  }

  /**
   * @template T
   * @param {(client: Client) => Promise<T>} work
   * @returns {Promise<T>}
   */
  #answered(work) {
    return new Promise((resolve, reject) => {
      this.#calls.add(reject);
      work(this.client)
        .then(resolve, reject)
        .finally(() => this.#calls.delete(reject));
    });
  }

  /**
   * @param {() => boolean} good
   * @param {number} seconds
   */
  #until(good, seconds) {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        end();
        resolve(null);
      };
      const end = this.client.subscribe(() => good() && done());
      const timer = setTimeout(done, seconds * 1000);
      if (good()) done();
    });
  }

  /** @param {string} what */
  #note(what) {
    this.#log.push(`${performance.now().toFixed(0)} ms: ${what}`);
  }
}
