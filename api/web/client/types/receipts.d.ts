/** @import { JwkSet, SignedReceipt } from "./types.d.ts" */
import type { JwkSet, SignedReceipt } from "./types.d.ts";
/**
 * Return whether a receipt was signed with one of the keys; null if this platform can't tell, because its Web Crypto has
 * no Ed25519 or the page came without TLS.
 * @param {SignedReceipt} signed
 * @param {JwkSet} keys those of `/.well-known/sesi-receipts.json`
 * @returns {Promise<boolean | null>}
 */
export declare function verifyReceipt({ receipt, key_id: keyId, signature }: SignedReceipt, keys: JwkSet): Promise<boolean | null>;
