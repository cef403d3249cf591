/** @import { Transcript } from "./transcript.js" */
/** @import { Message } from "./transcript.js" */

/** @typedef {{ seq: number, value: Uint8Array<ArrayBuffer> }} Digest */

const UTF8 = new TextEncoder();

/** @param {Uint8Array} bytes */
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** @type {WeakMap<Transcript, Promise<Digest>>} how far each transcript was hashed */
const known = new WeakMap();

/**
 * Return the digest of a transcript up to `seq`, in hex; null if it lacks a message before that, or if a text was removed.
 * @param {Transcript} transcript
 * @param {number} seq
 * @param {(bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>} sha256
 */
export async function digestOf(transcript, seq, sha256) {
  if (transcript.first > 1 || seq > transcript.last) return null;
  const before = known.get(transcript) ?? Promise.resolve({ seq: 0, value: new Uint8Array(32) });
  const next = before.then((from) => advance(transcript, from.seq > seq ? null : from, seq, sha256));
  known.set(transcript, next);
  const reached = await next;
  return reached.seq === seq ? hex(reached.value) : null;
}

/**
 * @param {Transcript} transcript
 * @param {Digest | null} from null: the beginning
 * @param {number} to
 * @param {(bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>} sha256
 * @returns {Promise<Digest>}
 */
async function advance(transcript, from, to, sha256) {
  let { seq, value } = from ?? { seq: 0, value: new Uint8Array(32) };
  for (const { id, content, blanked } of transcript.between(seq + 1, to)) {
    if (blanked) break;
    const line = UTF8.encode(`${seq + 1}:${id}:${hex(await sha256(UTF8.encode(content)))}\n`);
    const bytes = new Uint8Array(value.length + line.length);
    bytes.set(value);
    bytes.set(line, value.length);
    value = await sha256(bytes);
    seq++;
  }
  return { seq, value };
}
