/**
 * What each close code asks of a client; all others mean: reconnect with backoff. `rangeS` is the least upper end of
 * the random wait, `renew` refreshes the token first, `final` ends the connection.
 * @type {Record<number, { rangeS?: number, renew?: boolean, final?: boolean }>}
 */
const CLOSE_CODES = {
  1012: { rangeS: 5 },
  1013: { rangeS: 10 },
  4401: { renew: true },
  4403: { final: true },
  4409: { final: true },
};

export const REVOKED = 4403;

/** @param {number | null} code null for a lost connection */
export const closeCode = (code) => CLOSE_CODES[code ?? 0] ?? {};
