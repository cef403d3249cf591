/** @import { Code, ErrorDetails } from "./types.d.ts" */

/** A refusal by the service, or code `NETWORK` with status 0 when there was no answer. */
export class SesiError extends Error {
  /**
   * @param {number} status HTTP status; 0 for an `error` frame and when there was no answer
   * @param {{ code: string, message: string, details?: ErrorDetails, retry_after_seconds?: number }} error
   * @param {string | null} [requestId]
   */
  constructor(status, error, requestId = null) {
    super(error.message);
    this.name = "SesiError";
    this.status = status;
    /** @type {Code} */
    this.code = error.code;
    this.details = error.details ?? {};
    this.retryAfterSeconds = error.retry_after_seconds ?? null;
    this.requestId = requestId;
  }
}

/**
 * Return whether an error is a refusal with this code.
 * @param {any} error
 * @param {string} code
 */
export const hasCode = (error, code) => error.code === code;

/**
 * Return null for a refusal that needs no action, and raise everything else.
 * @param {unknown} error
 */
export const ignoreRefusal = (error) => {
  if (!(error instanceof SesiError)) throw error;
  return null;
};
