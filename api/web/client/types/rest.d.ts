import type { CallOptions } from "./types.d.ts";
/**
 * Return the longest pause in seconds before attempt `n` (0 for the first one).
 * @param {number} n
 */
export declare const longestPause: (n: number) => number;
/**
 * Return whether the same request can succeed without a change by the user.
 * @param {any} error
 */
export declare const isTransient: ({ status, code }: any) => boolean;
/** Requests to the public listener. */
export declare class Rest {
    #private;
    /**
     * @param {import("./device.js").Device} device
     * @param {string} api base address
     * @param {Record<string, string | undefined>} headers of every request
     */
    constructor(device: import("./device.js").Device, api: string, headers: Record<string, string | undefined>);
    /**
     * Send one request and return its answer, null for 204. A program between app and service may answer instead of it:
     * what is no JSON object with the `fields` of the options counts as no answer. Raises SesiError.
     * @param {string} route method and path, such as `GET /api/client/auth/me`
     * @param {CallOptions} [options]
     * @param {string | null} [token] access token
     * @returns {Promise<any>}
     */
    once(route: string, { path, query, body, idempotencyKey, fields }?: CallOptions, token?: string | null): Promise<any>;
    /**
     * Run `attempt` until it succeeds, fails for good, or has failed too often. Raises SesiError.
     * @template T
     * @param {() => Promise<T>} attempt
     * @returns {Promise<T>}
     */
    repeat<T>(attempt: () => Promise<T>): Promise<T>;
}
