/**
 * Return a random UUID (version 4), also on pages without TLS, where `crypto.randomUUID` is missing.
 * @returns {string}
 */
export declare function randomId(): string;
