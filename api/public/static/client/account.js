import { SesiError } from "./errors.js";

/** @import { Account as User, CallOptions, Role } from "./types.d.ts" */

const ANONYMOUS = "POST /api/shared/auth/anonymous";

/** Sign-in, sign-out, and calls with the access token. */
export class Account {
  #device;
  #isSigningIn = false;
  /** @type {"revoked" | "expired" | null} */
  #endedMeanwhile = null;

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
    const attempt = () => {
      used = tokens.current?.access ?? null;
      return rest.once(route, options, used);
    };
    const send = () => (once ? attempt() : rest.repeat(attempt));
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof SesiError) || error.code !== "UNAUTHENTICATED" || used === null) throw error;
      await tokens.renew(used);
      if (!tokens.current) throw error;
      return send();
    }
  }

  signInAnonymously() {
    return this.#signIn(() => this.#device.rest.repeat(() => this.#device.rest.once(ANONYMOUS)));
  }

  /** @param {string} phone */
  requestCode(phone) {
    return this.#device.rest.once(`POST ${this.#otp}/request`, { body: { phone } });
  }

  /**
   * @param {string} code
   * @param {string} otpRequestId
   */
  verifyCode(code, otpRequestId) {
    const options = { body: { otp_request_id: otpRequestId, code } };
    // Not repeated: a code works once.
    return this.#signIn((token) => this.#device.rest.once(`POST ${this.#otp}/verify`, options, token));
  }

  /**
   * @param {"a" | "b"} provider
   * @param {string} identityToken
   * @param {string | null} nonce
   */
  signInWithIdentity(provider, identityToken, nonce) {
    const options = { body: { identity_token: identityToken, ...(nonce !== null && { nonce }) } };
    const { rest } = this.#device;
    return this.#signIn((token) =>
      rest.repeat(() => rest.once(`POST /api/client/auth/identity-${provider}`, options, token)),
    );
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
   * End the sign-in, because the service has. A sign-in that runs may be the cause, so its outcome decides.
   * @param {"revoked" | "expired"} reason
   */
  async end(reason) {
    if (this.#isSigningIn) this.#endedMeanwhile = reason;
    else if (this.#device.tokens.current) await this.#device.ended(reason);
  }

  get #otp() {
    return `/api/${this.#device.role === "mitra" ? "mitra" : "client"}/auth/otp`;
  }

  /**
   * @param {(token: string | null) => Promise<any>} request sent with the token of an anonymous customer
   * @returns {Promise<User>}
   */
  async #signIn(request) {
    const { tokens } = this.#device;
    this.#isSigningIn = true;
    try {
      // An expired token would be ignored, and the customer would lose what they have.
      if (isAnonymous(tokens.current?.user)) await this.call("GET /api/client/auth/me");
      const before = tokens.current;
      const answer = await request(isAnonymous(before?.user) ? (before?.access ?? null) : null);
      if (before && !isAnonymous(before.user)) await this.#device.ended("self");
      const user = await tokens.keep(answer);
      this.#endedMeanwhile = null;
      await this.#device.began(user);
      return user;
    } finally {
      this.#isSigningIn = false;
      const reason = this.#endedMeanwhile;
      this.#endedMeanwhile = null;
      if (reason) await this.end(reason);
    }
  }
}

/** @param {User | undefined} user */
const isAnonymous = (user) => user !== undefined && "is_anonymous" in user && user.is_anonymous;
