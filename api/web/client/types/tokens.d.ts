import type { Account } from "./types.d.ts";
export type SignedIn = {
    access: string;
    refresh: string;
    user: Account;
};
/** @import { Account } from "./types.d.ts" */
/** @typedef {{ access: string, refresh: string, user: Account }} SignedIn */
/** What an answer with tokens has. */
export declare const TOKEN_FIELDS: string[];
/** The tokens of this device. One refresh serves all calls, sockets and tabs. */
export declare class Tokens {
    #private;
    /** @type {SignedIn | null} */
    current: SignedIn | null;
    /** Counts sign-outs, so that an earlier user's calls are neither repeated nor answered. */
    ends: number;
    /** @param {import("./device.js").Device} device */
    constructor(device: import("./device.js").Device);
    /** Read the stored tokens. */
    load(): Promise<void>;
    /**
     * Store the tokens of a sign-in, then use them.
     * @param {any} answer
     * @param {SignedIn} [before] those that they replace; without it, whatever there is
     * @returns {Promise<Account>} the user
     */
    keep(answer: any, before?: SignedIn): Promise<Account>;
    /**
     * Replace the user that is stored with the tokens.
     * @param {Account} user
     */
    setUser(user: Account): Promise<void>;
    /**
     * Forget the tokens. When the service has ended the sign-in, another tab may have stored those of the next one.
     * @param {"self" | "revoked" | "expired"} reason
     */
    forget(reason: "self" | "revoked" | "expired"): Promise<void>;
    /**
     * Replace the access token `used`, unless that has happened already. Raises SesiError.
     * @param {string} used
     * @returns {Promise<void>}
     */
    renew(used: string): Promise<void>;
    /**
     * Do what replaces tokens, under the lock of all tabs.
     * @template T
     * @param {SignedIn} mine
     * @param {() => Promise<T>} work
     */
    locked<T>(mine: SignedIn, work: () => Promise<T>): Promise<T>;
}
