/** @import { Session } from "./types.d.ts" */

const ORDER = ["searching", "active", "expired", "closing", "completed", "cancelled", "failed"];

/**
 * Return whether `session` is not an older view than `known`. A session only goes forward, except that an extension
 * makes it active again until a later time.
 * @param {Session} session
 * @param {Session} known
 */
export function isNewer(session, known) {
  const [rank, knownRank] = [ORDER.indexOf(session.status), ORDER.indexOf(known.status)];
  const [end, knownEnd] = [session, known].map(({ expires_at }) => Date.parse(expires_at ?? "") || 0);
  const isOver = Math.max(rank, knownRank) > ORDER.indexOf("expired");
  return isOver || end === knownEnd
    ? rank >= knownRank
    : /** @type {number} */ (end) > /** @type {number} */ (knownEnd);
}

/**
 * Return whether messages or goodbyes can still come.
 * @param {Session} session
 */
export const isRunning = ({ status }) => ["active", "expired", "closing"].includes(status);
