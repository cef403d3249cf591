import { hasCode, SesiError } from "./errors.js";
import { TOKEN_FIELDS } from "./tokens.js";

/** @import { Account as User, CallOptions } from "./types.d.ts" */

export const ANONYMOUS = "POST /api/shared/auth/anonymous";

/** Sign-in, sign-out, and calls with the access token. */
export class Account {
  #device;
  /** @type {"revoked" | "expired" | null | undefined} undefined while no sign-in runs */
  #endedMeanwhile;

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
  }

  /**
   * Call a route with the access token; refresh it once if it is refused. Raises SesiError.
   * @param {string} route
   * @param {CallOptions} [options]
   * @param {boolean} [once] without repeats
   * @returns {Promise<any>}
   */
  async call(route, options, once = false) {
    const { rest, tokens } = this.#device;
    /** @type {string | null} */
    let used = null;
    const { ends } = tokens;
    const attempt = async () => {
      if (ends === tokens.ends) {
        used = tokens.current?.access ?? null;
        const answer = await rest.once(route, options, used);
        if (ends === tokens.ends) return answer;
      }
      throw new SesiError(401, { code: "UNAUTHENTICATED", message: "Signed out." });
    };
    const send = () => (once ? attempt() : rest.repeat(attempt));
    try {
      return await send();
    } catch (error) {
      if (!hasCode(error, "UNAUTHENTICATED") || used === null) throw error;
      await tokens.renew(used);
      if (!tokens.current) throw error;
      return send();
    }
  }

  /**
   * Sign in. An anonymous customer keeps what they have: their request ends its own token, so it has a key, and a
   * repeat gets the same answer. Raises SesiError.
   * @param {string} route
   * @param {object} [body]
   * @param {boolean} [once] without repeats, unless there is a key
   * @returns {Promise<User>}
   */
  async signIn(route, body, once) {
    const { rest, tokens } = this.#device;
    this.#endedMeanwhile = null;
    try {
      // An expired token would be ignored, and the customer would lose what they have.
      if (isAnonymous(tokens.current?.user)) await this.call("GET /api/client/auth/me");
      const before = tokens.current;
      const token = isAnonymous(before?.user) && route !== ANONYMOUS ? before?.access : null;
      const idempotencyKey = token ? this.#device.ports.id() : undefined;
      const attempt = () => rest.once(route, { body, fields: TOKEN_FIELDS, idempotencyKey }, token);
      const begin = async () => {
        const answer = await (once && !token ? attempt() : rest.repeat(attempt));
        if (before && !isAnonymous(before.user)) await this.#device.ended("self");
        return tokens.keep(answer);
      };
      // Other tabs lose their token, too: they wait before they refresh it, and find the new one.
      const user = await (before && token ? tokens.locked(before, begin) : begin());
      this.#endedMeanwhile = null;
      await this.#device.began(user);
      return user;
    } finally {
      const reason = this.#endedMeanwhile;
      this.#endedMeanwhile = undefined;
      if (reason) await this.end(reason);
    }
  }

  /**
   * Call a route whose answer is the user, and keep it. Raises SesiError.
   * @param {string} route
   * @param {CallOptions} [options]
   * @param {boolean} [once] without repeats
   * @returns {Promise<User>}
   */
  async ask(route, options, once) {
    return this.#device.setUser(await this.call(route, { ...options, fields: ["id"] }, once));
  }

  /** Forget the sign-in here, then end it at the service, if that can be reached. */
  async signOut() {
    const { rest, tokens } = this.#device;
    const token = tokens.current?.access;
    if (!token) return;
    await this.#device.ended("self");
    await rest.once("POST /api/shared/auth/logout", {}, token).catch(() => {}); // signed out here in any case
  }

  /**
   * Erase the account, then forget the sign-in here.
   * @param {import("./wire.d.ts").EraseBody} proof
   */
  async erase(proof) {
    await this.call("POST /api/client/auth/me/erase", { body: proof });
    if (this.#device.tokens.current) await this.#device.ended("self"); // the closed sockets may have done it
  }

  /**
   * End the sign-in, because the service has. A sign-in that runs may be the cause, so its outcome decides.
   * @param {"revoked" | "expired"} reason
   */
  async end(reason) {
    if (this.#endedMeanwhile !== undefined) this.#endedMeanwhile = reason;
    else if (this.#device.tokens.current) await this.#device.ended(reason);
  }
}

/** @param {any} user */
const isAnonymous = (user) => user?.is_anonymous;
