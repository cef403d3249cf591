import type { Account, Ports } from "./types.d.ts";
export type SignedIn = {
    access: string;
    refresh: string;
    user: Account;
};
/** The tokens of this device. One refresh serves all calls, sockets and tabs. */
export declare class Tokens {
    #private;
    /** @type {SignedIn | null} */
    current: SignedIn | null;
    /**
     * @param {import("./storage.js").Values} values
     * @param {Ports} ports
     * @param {import("./rest.js").Rest} rest
     * @param {{ renewed: (user: Account) => void, refused: () => void }} listener of refreshes
     */
    constructor(values: import("./storage.js").Values, ports: Ports, rest: import("./rest.js").Rest, listener: {
        renewed: (user: Account) => void;
        refused: () => void;
    });
    /** Read the stored tokens. */
    load(): Promise<void>;
    /**
     * Store the tokens of a sign-in, then use them.
     * @param {any} answer
     * @returns {Promise<Account>} the user
     */
    keep(answer: any): Promise<Account>;
    /**
     * Replace the user that is stored with the tokens.
     * @param {Account} user
     */
    setUser(user: Account): Promise<void>;
    /** Forget the tokens. */
    forget(): Promise<void>;
    /**
     * Replace the access token `used`, unless that has happened already. Raises SesiError.
     * @param {string} used
     * @returns {Promise<void>}
     */
    renew(used: string): Promise<void>;
}
