/**
 * Return a random UUID (version 4), also on pages without TLS, where `crypto.randomUUID` is missing.
 * @returns {string}
 */
export function randomId() {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))].map((byte, n) => {
    if (n === 6) return (byte & 0x0f) | 0x40; // the version
    return n === 8 ? (byte & 0x3f) | 0x80 : byte; // the variant
  });
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
