/**
 * Return the longest pause in seconds before attempt `n` (0 for the first one).
 * @param {number} n
 */
export declare const longestPause: (n: number) => number;
/** The waits of one socket: random, so that the clients of a stopped process do not return together. */
export declare class Backoff {
    #private;
    /** @param {() => number} random */
    constructor(random: () => number);
    /**
     * Return the milliseconds to wait after a socket that was authenticated for `livedMs`.
     * @param {{ livedMs: number, leastRangeS: number, retryAfterS: number | null }} ended
     */
    wait({ livedMs, leastRangeS, retryAfterS }: {
        livedMs: number;
        leastRangeS: number;
        retryAfterS: number | null;
    }): number;
}
