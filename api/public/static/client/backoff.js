const LONGEST_S = [1, 2, 4, 8, 10, 30];
const STABLE_MS = 10_000;

/**
 * Return the longest pause in seconds before attempt `n` (0 for the first one).
 * @param {number} n
 */
export const longestPause = (n) => /** @type {number} */ (LONGEST_S[Math.min(n, LONGEST_S.length - 1)]);

/** The waits of one socket: random, so that the clients of a stopped process do not return together. */
export class Backoff {
  #failures = 0;
  #random;

  /** @param {() => number} random */
  constructor(random) {
    this.#random = random;
  }

  /**
   * Return the milliseconds to wait after a socket that was authenticated for `livedMs`.
   * @param {{ livedMs: number, leastRangeS: number, retryAfterS: number | null }} ended
   */
  wait({ livedMs, leastRangeS, retryAfterS }) {
    if (livedMs >= STABLE_MS) this.#failures = 0;
    if (retryAfterS !== null) return (retryAfterS + this.#random()) * 1000;
    return this.#random() * Math.max(longestPause(this.#failures++), leastRangeS) * 1000;
  }
}
