/** @import { Transcript } from "./transcript.js" */
/** @import { Message } from "./transcript.js" */
import type { Transcript } from "./transcript.js";
export type Digest = {
    seq: number;
    value: Uint8Array<ArrayBuffer>;
};
/**
 * Return the digest of a transcript up to `seq`, in hex; null if it lacks a message before that, or if a text was removed.
 * @param {Transcript} transcript
 * @param {number} seq
 * @param {(bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>} sha256
 */
export declare function digestOf(transcript: Transcript, seq: number, sha256: (bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>): Promise<string | null>;
