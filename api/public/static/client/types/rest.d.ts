import { SesiError } from "./errors.js";
import type { CallOptions, Ports } from "./types.d.ts";
/**
 * Return whether the same request can succeed without a change by the user.
 * @param {SesiError} error
 */
export declare const isTransient: ({ status, code }: SesiError) => boolean;
/** Requests to the public listener. */
export declare class Rest {
    #private;
    /**
     * @param {string} api base address
     * @param {Ports} ports
     * @param {import("./service_clock.js").ServiceClock} clock
     * @param {() => Record<string, string>} headers of every request
     */
    constructor(api: string, ports: Ports, clock: import("./service_clock.js").ServiceClock, headers: () => Record<string, string>);
    /**
     * Send one request and return its answer, null for 204. Raises SesiError.
     * @param {string} route method and path, such as `GET /api/client/auth/me`
     * @param {CallOptions} [options]
     * @param {string | null} [token] access token
     * @returns {Promise<any>}
     */
    once(route: string, { path, query, body, idempotencyKey }?: CallOptions, token?: string | null): Promise<any>;
    /**
     * Run `attempt` until it succeeds, fails for good, or has failed too often. Raises SesiError.
     * @template T
     * @param {() => Promise<T>} attempt
     * @returns {Promise<T>}
     */
    repeat<T>(attempt: () => Promise<T>): Promise<T>;
}
