import type { Account as User, CallOptions } from "./types.d.ts";
/** @import { Account as User, CallOptions } from "./types.d.ts" */
export declare const ANONYMOUS = "POST /api/shared/auth/anonymous";
/** Sign-in, sign-out, and calls with the access token. */
export declare class Account {
    #private;
    /** @param {import("./device.js").Device} device */
    constructor(device: import("./device.js").Device);
    /**
     * Call a route with the access token; refresh it once if it is refused. Raises SesiError.
     * @param {string} route
     * @param {CallOptions} [options]
     * @param {boolean} [once] without repeats
     * @returns {Promise<any>}
     */
    call(route: string, options?: CallOptions, once?: boolean): Promise<any>;
    /**
     * Sign in. An anonymous customer keeps what they have: their request ends its own token, so it has a key, and a
     * repeat gets the same answer. Raises SesiError.
     * @param {string} route
     * @param {object} [body]
     * @param {boolean} [once] without repeats, unless there is a key
     * @returns {Promise<User>}
     */
    signIn(route: string, body?: object, once?: boolean): Promise<User>;
    /** Forget the sign-in here, then end it at the service, if that can be reached. */
    signOut(): Promise<void>;
    /**
     * Erase the account, then forget the sign-in here.
     * @param {import("./wire.d.ts").EraseBody} proof
     */
    erase(proof: import("./wire.d.ts").EraseBody): Promise<void>;
    /**
     * End the sign-in, because the service has. A sign-in that runs may be the cause, so its outcome decides.
     * @param {"revoked" | "expired"} reason
     */
    end(reason: "revoked" | "expired"): Promise<void>;
}
