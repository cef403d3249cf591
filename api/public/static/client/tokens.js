import { SesiError } from "./errors.js";

/** @import { Account, Ports } from "./types.d.ts" */
/** @typedef {{ access: string, refresh: string, user: Account }} SignedIn */

const LOCK_MS = 3000;
const KEY = "tokens";

/** The tokens of this device. One refresh serves all calls, sockets and tabs. */
export class Tokens {
  /** @type {SignedIn | null} */
  current = null;
  /** @type {Promise<void> | null} */
  #renewal = null;
  #values;
  #ports;
  #rest;
  #listener;

  /**
   * @param {import("./storage.js").Values} values
   * @param {Ports} ports
   * @param {import("./rest.js").Rest} rest
   * @param {{ renewed: (user: Account) => void, refused: () => void }} listener of refreshes
   */
  constructor(values, ports, rest, listener) {
    this.#values = values;
    this.#ports = ports;
    this.#rest = rest;
    this.#listener = listener;
  }

  /** Read the stored tokens. */
  async load() {
    this.current = await this.#values.get(KEY);
  }

  /**
   * Store the tokens of a sign-in, then use them.
   * @param {any} answer
   * @returns {Promise<Account>} the user
   */
  async keep(answer) {
    const user = answer.customer ?? answer.mitra;
    const signedIn = { access: answer.access_token, refresh: answer.refresh_token, user };
    await this.#values.set(KEY, signedIn);
    this.current = signedIn;
    return user;
  }

  /**
   * Replace the user that is stored with the tokens.
   * @param {Account} user
   */
  async setUser(user) {
    if (!this.current) return;
    this.current = { ...this.current, user };
    await this.#values.set(KEY, this.current);
  }

  /** Forget the tokens. */
  async forget() {
    this.current = null;
    await this.#values.remove(KEY);
  }

  /**
   * Replace the access token `used`, unless that has happened already. Raises SesiError.
   * @param {string} used
   * @returns {Promise<void>}
   */
  async renew(used) {
    if (this.current?.access !== used) return;
    this.#renewal ??= this.#rest
      .repeat(() => this.#rotate(used))
      .finally(() => {
        this.#renewal = null;
      });
    await this.#renewal;
  }

  /**
   * Refresh once, under the lock of all tabs.
   * @param {string} used
   */
  async #rotate(used) {
    const mine = this.current;
    if (mine?.access !== used) return;
    await this.#ports.lock(`sesi:${mine.user.id}`, LOCK_MS, async () => {
      if (await this.#useNewer(mine)) return;
      const body = { refresh_token: mine.refresh };
      let answer;
      try {
        answer = await this.#rest.once("POST /api/shared/auth/refresh", { body });
      } catch (error) {
        if (!(error instanceof SesiError) || error.code !== "REFRESH_INVALID") throw error;
        if (!(await this.#useNewer(mine))) this.#listener.refused();
        return;
      }
      if (await this.#useNewer(mine)) return;
      this.#listener.renewed(await this.keep(answer));
    });
  }

  /**
   * Use the tokens that another tab has stored, or that replaced `mine` here. Return whether there are any.
   * @param {SignedIn} mine
   */
  async #useNewer(mine) {
    /** @type {SignedIn | null} */
    const stored = await this.#values.get(KEY);
    if (this.current !== mine) return true;
    if (!stored || stored.user.id !== mine.user.id || stored.refresh === mine.refresh) return false;
    this.current = stored;
    return true;
  }
}
