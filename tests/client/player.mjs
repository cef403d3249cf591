/** Play a vector with the library (docs/clients.md#the-vectors). */

import { storedUser, usualBody, wholeBody, wholeFrame } from "./documents.mjs";
import { Mismatch, Names } from "./names.mjs";
import { Stage } from "./stage.mjs";
import { settle } from "./world.mjs";

const ANSWERS = { auth_ok: "auth", message_ack: "send_message", sync: "sync", pong: "ping", accepted: "accept" };
const PART_MS = 500; // time passes in parts, so that requests without a step are answered in time
const SNAPSHOTS = { sessions: [], searching: null, requests: [] };
const API = "http://api.test";
const SOCKETS = "ws://sockets.test";

/** The calls of vectors, by their names. */
const CALLS = {
  start: (client) => client.start(),
  send: (client, { session_id, content, metadata }) => client.send(session_id, content, metadata),
  request: (client, { method, path }) => client.call(`${method} ${path}`),
  mark_read: (client, { session_id }) => client.markRead(session_id),
  typing: (client, { session_id }) => client.typing(session_id),
  pay: (client, wish) => client.pay(wish),
  accept: (client, { session_id }) => client.accept(session_id),
  go_online: (client) => client.goOnline(),
  receive_push: (client, push) => client.receivePush(push),
  sign_out: (client) => client.signOut(),
};

class Player {
  #createClient;
  #role;
  #paths;
  #given;
  #names;
  #stage = new Stage();
  #client;
  #outcomes = {};
  #sent = []; // all frames of the client
  #waiting = []; // expected requests without an answer, oldest first
  #epoch; // the one that was served last, or that the vector serves first

  constructor(vector, createClient) {
    this.#createClient = createClient;
    this.#given = { ignore: [], watch: [], ids: [], standing: [], random: 0.5, ...vector.given };
    this.#role = vector.given.role;
    this.#paths = vector.given.sockets;
    this.#names = new Names(this.#role, this.#given.ids);
    this.#stage.random = this.#given.random;
    this.#stage.wallIsAhead = (this.#given.wrong_clock_seconds ?? 0) * 1000;
    if (this.#given.signed_in ?? true) {
      const user = this.#names.fill(storedUser(this.#role));
      this.#stage.stored.set("tokens", JSON.stringify({ access: "A1", refresh: "R1", user }));
    }
    this.#begin();
  }

  #begin() {
    const { storage, ports } = this.#stage;
    this.#client = this.#createClient({ role: this.#role, api: API, sockets: SOCKETS, storage, ports });
  }

  /** Play all steps. Throws Mismatch. */
  async play(steps) {
    const whole = [...steps.flatMap((step) => this.#expand(step)), { quiet: true }];
    this.#epoch = whole.map((step) => step.serve?.frame?.epoch).find((epoch) => epoch);
    for (const [n, step] of whole.entries()) {
      await this.#answerUsual();
      try {
        await this.#do(step);
      } catch (error) {
        if (error instanceof Mismatch)
          error.message = `step ${n}, ${JSON.stringify(step).slice(0, 200)}: ${error.message}`;
        throw error;
      }
    }
  }

  #expand(step) {
    if (!step.opens) return [step];
    const { path = this.#paths[0], token, auth_ok = {} } = step.opens;
    return [
      { expect: { open: path } },
      { serve: { open: path } },
      { expect: { frame: { type: "auth", token } } },
      { serve: { frame: { type: "auth_ok", ...auth_ok }, on: path } },
    ];
  }

  async #do(step) {
    if (step.call) this.#call(step);
    else if (step.expect) this.#expect(step);
    else if (step.may) await this.#may(step);
    else if (step.serve) await this.#serve(step);
    else if (step.fault) await this.#fault(step);
    else if ("advance" in step) await this.#advance(step.advance);
    else if (step.quiet) this.#expectNothing();
    else if (step.state) this.#names.match(step.state, this.#state(), "state");
    else if (step.outcome) this.#names.match(step.outcome, this.#outcomes, "outcome");
    else throw new Error(`no step: ${JSON.stringify(step)}`);
  }

  /** Let the client do all it can do now, and answer what the vector answers without a step. */
  async #answerUsual() {
    for (;;) {
      await settle();
      const rest = this.#stage.did.splice(0);
      const kept = [];
      for (const did of rest) if (!(await this.#isUsual(did))) kept.push(did);
      const changed = kept.length !== rest.length;
      this.#stage.did.unshift(...kept);
      if (!changed) return;
    }
  }

  /** Answer or drop what no step expects; return whether the vector sees nothing of it. */
  async #isUsual(did) {
    if (did.request) return this.#isUsualRequest(did);
    if (!this.#paths.includes(did.open ?? did.path)) {
      await this.#serveOther(did);
      return true;
    }
    if (did.open) return false;
    if (!this.#sent.includes(did.frame)) this.#sent.push(did.frame);
    const standing = this.#given.standing.find(({ on }) => on.frame && this.#names.fits(on.frame, did.frame));
    if (standing) await this.#serveFrame({ ...standing.serve, to: did.frame }, did.path);
    return Boolean(standing) || this.#given.ignore.includes(did.frame.type);
  }

  #isUsualRequest(did) {
    const { ignore, watch, standing } = this.#given;
    const found = standing.find(({ on }) => on.request && this.#route(on.request) === did.request);
    if (found) {
      this.#answer(did, found.serve.answer);
      return true;
    }
    if (watch.includes(did.request) || !(did.request.startsWith("GET ") || ignore.includes(did.request))) return false;
    const usual = usualBody(did.request);
    this.#answer(did, usual ? { status: 200, body: usual } : { status: 404 });
    return true;
  }

  /** Keep a socket open that the vector is not about. */
  async #serveOther({ open, frame, path }) {
    const epoch = this.#epoch ? { epoch: this.#epoch } : {};
    if (open) this.#stage.socket(open).events.opened();
    else if (frame.type === "auth")
      await this.#serveFrame({ frame: { type: "auth_ok", ...SNAPSHOTS, ...epoch } }, path);
    else if (frame.type === "ping") await this.#serveFrame({ frame: { type: "pong" } }, path);
  }

  #route(route) {
    const [method, path] = route.split(" ");
    return `${method} ${path
      .split("/")
      .map((part) => this.#names.fill(part))
      .join("/")}`;
  }

  // -- steps

  #call(step) {
    const run = async () => {
      try {
        await CALLS[step.call](this.#client, this.#names.fill(step.with ?? {}));
        if (step.as) this.#outcomes[step.as] = null;
      } catch (error) {
        if (!error.code || !step.as) throw error;
        this.#outcomes[step.as] = error.code;
      }
    };
    void run();
  }

  #expect({ expect, any_order }) {
    for (const wanted of [expect].flat()) {
      const { did } = this.#stage;
      if (!did.length) throw new Mismatch(`nothing came, not ${JSON.stringify(wanted)}`);
      const place = any_order ? did.findIndex((one) => this.#fits(wanted, one)) : 0;
      this.#take(wanted, did.splice(Math.max(place, 0), 1)[0]);
    }
  }

  #wanted(item) {
    return item.request ? { ...item, request: this.#route(item.request) } : item;
  }

  #fits(item, did) {
    if (item.frame) return did.frame !== undefined && this.#names.fits(item.frame, did.frame, true);
    return this.#names.fits(this.#wanted(item), did);
  }

  #take(item, did) {
    if (item.frame) this.#names.match(item.frame, did.frame ?? did, "frame", true);
    else this.#names.match(this.#wanted(item), did, "it");
    if (did.request) this.#waiting.push(did);
  }

  async #may(step) {
    const place = this.#stage.did.findIndex((did) => this.#fits(step.may, did));
    if (place < 0) return;
    this.#take(step.may, this.#stage.did.splice(place, 1)[0]);
    if (step.serve) await this.#serve(step);
  }

  async #serve({ serve, if_sent }) {
    if (if_sent && !this.#names.areKnown(serve.to)) return;
    const path = serve.on ?? this.#paths[0];
    if (serve.frame) await this.#serveFrame(serve, path);
    else if (serve.answer) {
      if (!this.#waiting.length) throw new Mismatch("no request waits for this answer");
      this.#answer(this.#waiting.shift(), serve.answer);
    } else if (serve.refused) {
      const after = serve.headers?.["Retry-After"];
      await this.#stage.close(1006, path, after ? Number(after) : null);
    } else this.#stage.socket(serve.open).events.opened();
  }

  async #serveFrame({ frame, to }, path) {
    const server_time = this.#stage.serverTime();
    const whole = this.#names.fill(wholeFrame(this.#role, path, { server_time, ...frame }));
    const ref = this.#ref(to, whole);
    if (frame.epoch) this.#epoch = frame.epoch;
    await this.#stage.deliver(ref === undefined ? whole : { ...whole, ref }, path);
  }

  /** Return the `ref` of the client's frame that a served frame answers. */
  #ref(to, frame) {
    const { type, session_id, client_message_id } = frame;
    const same = { ...(session_id && { session_id }), ...(client_message_id && { client_message_id }) };
    const asked = to ?? (ANSWERS[type] && { type: ANSWERS[type], ...same });
    return asked && this.#sent.findLast((sent) => this.#names.fits(asked, sent))?.ref;
  }

  #answer(did, { status, body, foreign, headers = {} }) {
    if (status === 0) {
      did.reject(new TypeError("no network"));
      return;
    }
    if (foreign !== undefined) {
      did.resolve({ status, header: (name) => headers[name] ?? null, text: JSON.stringify(foreign) });
      return;
    }
    const whole = this.#names.fill(wholeBody(body));
    const error = { error: { code: "NOT_FOUND", message: "Not found." } };
    const text = whole === null ? (status < 400 ? "" : JSON.stringify(error)) : JSON.stringify(whole);
    const all = { "X-Server-Time": this.#stage.serverTime(), ...headers };
    did.resolve({ status, header: (name) => all[name] ?? null, text });
  }

  async #fault({ fault, code = 1006, on = this.#paths[0], of }) {
    if (fault === "close") await this.#stage.close(code, on);
    else if (fault === "lost") this.#stage.socket(on).isLost = true;
    else if (fault === "late_close") {
      this.#stage.sockets.filter(({ path }) => path === on)[of].events.closed(code);
    } else if (fault === "storage_fails") this.#stage.storageFails = true;
    else if (fault === "hidden") this.#stage.hidden = true;
    else if (fault === "online") await this.#stage.wake("online");
    else if (fault === "visible") {
      this.#stage.hidden = false;
      await this.#stage.wake("visible");
    } else {
      this.#stage = this.#stage.next(); // killed
      this.#begin();
    }
  }

  async #advance(ms) {
    for (let left = ms; left > 0; left -= PART_MS) {
      await this.#stage.advance(Math.min(left, PART_MS));
      await this.#answerUsual();
    }
  }

  #expectNothing() {
    const shown = this.#stage.did.map(({ open, frame, request }) => JSON.stringify(open ?? frame ?? request));
    if (shown.length) throw new Mismatch(`the client did ${shown}`);
  }

  /** Return what the app shows, by the names of docs/clients.md. */
  #state() {
    const { state } = this.#client;
    const chats = Object.entries(state.chats).map(
      ([id, { session, messages, typingUntil, peer, extension, credit }]) => {
        const shown = messages.map((one) => ({ ...one, error: one.error?.code }));
        const { status, expires_at } = session;
        const held = { typing: typingUntil !== null, peer_absent: peer.absent };
        return [
          id,
          { status, expires_at, messages: shown, extension, credit_seconds: credit?.addedSeconds ?? null, ...held },
        ];
      },
    );
    return {
      connection: state.connection,
      signed_out: state.signedOut,
      saved: state.saved,
      stored: [...this.#stage.stored.keys()],
      chats: Object.fromEntries(chats),
      payments: state.payments,
      search: state.search && { session_id: state.search.id, asked: state.search.search?.asked },
      search_end: state.searchEnd,
      requests: state.requests.map((request) => request.session_id),
      closed_requests: state.closedRequests,
      online: state.status?.is_online ?? null,
      now: new Date(this.#client.now()).toISOString().replace(/\.\d+Z$/, "Z"),
    };
  }
}

/** Play a vector with a client that `createClient` makes. Throws Mismatch. */
export const play = (vector, createClient) => new Player(vector, createClient).play(vector.steps);
