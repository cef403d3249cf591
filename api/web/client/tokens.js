import { hasCode } from "./errors.js";

/** @import { Account } from "./types.d.ts" */
/** @typedef {{ access: string, refresh: string, user: Account }} SignedIn */

/** What an answer with tokens has. */
export const TOKEN_FIELDS = ["access_token", "refresh_token"];
const LOCK_MS = 3000;
const KEY = "tokens";

/** The tokens of this device. One refresh serves all calls, sockets and tabs. */
export class Tokens {
  /** @type {SignedIn | null} */
  current = null;
  /** Counts sign-outs, so that an earlier user's calls are neither repeated nor answered. */
  ends = 0;
  /** @type {Promise<void> | null} */
  #renewal = null;
  #device;

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
  }

  /** Read the stored tokens. */
  async load() {
    this.current = await this.#device.values.get(KEY);
  }

  /**
   * Store the tokens of a sign-in, then use them.
   * @param {any} answer
   * @param {SignedIn} [before] those that they replace; without it, whatever there is
   * @returns {Promise<Account>} the user
   */
  async keep(answer, before) {
    const user = answer.customer ?? answer.mitra;
    const signedIn = { access: answer.access_token, refresh: answer.refresh_token, user };
    await this.#device.values.set(KEY, signedIn);
    if (before && this.current !== before) await this.#device.values.set(KEY, this.current);
    else this.current = signedIn;
    return user;
  }

  /**
   * Replace the user that is stored with the tokens.
   * @param {Account} user
   */
  async setUser(user) {
    await this.#renewal?.catch(() => {}); // else its tokens and these would overwrite each other
    if (!this.current) return;
    this.current = { ...this.current, user };
    await this.#device.values.set(KEY, this.current);
  }

  /**
   * Forget the tokens. When the service has ended the sign-in, another tab may have stored those of the next one.
   * @param {"self" | "revoked" | "expired"} reason
   */
  async forget(reason) {
    const mine = this.current;
    this.current = null;
    this.ends++;
    /** @type {SignedIn | null} */
    const stored = await this.#device.values.get(KEY);
    if (reason === "self" || stored?.refresh === mine?.refresh) await this.#device.values.remove(KEY);
  }

  /**
   * Replace the access token `used`, unless that has happened already. Raises SesiError.
   * @param {string} used
   * @returns {Promise<void>}
   */
  async renew(used) {
    if (this.current?.access !== used) return;
    this.#renewal ??= this.#device.rest
      .repeat(() => this.#rotate(used))
      .finally(() => {
        this.#renewal = null;
      });
    await this.#renewal;
  }

  /**
   * Do what replaces tokens, under the lock of all tabs.
   * @template T
   * @param {SignedIn} mine
   * @param {() => Promise<T>} work
   */
  locked(mine, work) {
    return this.#device.ports.lock(`sesi:${mine.user.id}`, LOCK_MS, work);
  }

  /**
   * Refresh once, under the lock of all tabs.
   * @param {string} used
   */
  async #rotate(used) {
    const mine = this.current;
    if (mine?.access !== used) return;
    await this.locked(mine, async () => {
      if (await this.#takeNewer(mine)) return;
      const body = { refresh_token: mine.refresh };
      let answer;
      try {
        answer = await this.#device.rest.once("POST /api/shared/auth/refresh", { body, fields: TOKEN_FIELDS });
      } catch (error) {
        if (!hasCode(error, "REFRESH_INVALID")) throw error;
        if (!(await this.#takeNewer(mine))) void this.#device.account.end("expired");
        return;
      }
      if (await this.#takeNewer(mine)) return;
      await this.keep(answer, mine);
      if (this.current) this.#device.update({ user: this.current.user });
    });
  }

  /**
   * Use the tokens that another tab has stored, or that replaced `mine` here. Return whether there are any.
   * @param {SignedIn} mine
   */
  async #takeNewer(mine) {
    /** @type {SignedIn | null} */
    const stored = await this.#device.values.get(KEY);
    if (this.current !== mine) return true;
    if (!stored || stored.user.id !== mine.user.id || stored.refresh === mine.refresh) return false;
    this.current = stored;
    this.#device.update({ user: stored.user });
    return true;
  }
}
