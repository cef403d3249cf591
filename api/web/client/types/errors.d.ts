/** A refusal by the service, or code `NETWORK` with status 0 when there was no answer. */
export declare class SesiError extends Error {
    status: number;
    code: string;
    details: object;
    retryAfterSeconds: number | null;
    requestId: string | null;
    /**
     * @param {number} status HTTP status; 0 for an `error` frame and when there was no answer
     * @param {{ code: string, message: string, details?: object, retry_after_seconds?: number }} error
     * @param {string | null} [requestId]
     */
    constructor(status: number, error: {
        code: string;
        message: string;
        details?: object;
        retry_after_seconds?: number;
    }, requestId?: string | null);
}
/**
 * Return whether an error is a refusal with this code.
 * @param {any} error
 * @param {string} code
 */
export declare const hasCode: (error: any, code: string) => boolean;
/**
 * Return null for a refusal that needs no action, and raise everything else.
 * @param {unknown} error
 */
export declare const ignoreRefusal: (error: unknown) => null;
