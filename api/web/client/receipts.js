/** @import { JwkSet, SignedReceipt } from "./types.d.ts" */

/**
 * Return the bytes of a base64url text; null if it isn't one.
 * @param {string} text
 */
function bytesOf(text) {
  try {
    return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  } catch {
    return null;
  }
}

/**
 * Return the text of a receipt that is signed: JSON with sorted keys and no spaces.
 * @param {Record<string, unknown>} receipt
 */
const canonical = (receipt) => JSON.stringify(Object.fromEntries(Object.entries(receipt).sort()));

/**
 * Return whether a receipt was signed with one of the keys; null if this platform can't tell, because its Web Crypto has
 * no Ed25519 or the page came without TLS.
 * @param {SignedReceipt} signed
 * @param {JwkSet} keys those of `/.well-known/sesi-receipts.json`
 * @returns {Promise<boolean | null>}
 */
export async function verifyReceipt({ receipt, key_id: keyId, signature }, keys) {
  const { subtle } = globalThis.crypto ?? {};
  const jwk = keys.keys.find(({ kid, kty, crv }) => kid === keyId && kty === "OKP" && crv === "Ed25519");
  if (!jwk) return false;
  let key;
  try {
    key = await subtle.importKey("jwk", { kty: jwk.kty, crv: jwk.crv, x: jwk.x }, { name: "Ed25519" }, false, [
      "verify",
    ]);
  } catch {
    return null;
  }
  const bytes = bytesOf(signature);
  if (!bytes) return false;
  return subtle.verify({ name: "Ed25519" }, key, bytes, new TextEncoder().encode(canonical({ ...receipt })));
}
