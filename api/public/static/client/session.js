/** @import { Session } from "./types.d.ts" */

const ORDER = ["searching", "active", "expired", "closing", "completed", "cancelled", "failed"];

/**
 * Return whether `session` is not an older view than `known`. A session only goes forward, except that an extension
 * makes it active again until a later time.
 * @param {Session} session
 * @param {Session} known
 */
export function isNewer(session, known) {
  const isOver = Math.max(rank(session), rank(known)) > ORDER.indexOf("expired");
  if (isOver || end(session) === end(known)) return rank(session) >= rank(known);
  return end(session) > end(known);
}

/** @param {Session} session */
const rank = ({ status }) => ORDER.indexOf(status);

/** @param {Session} session */
const end = ({ expires_at }) => Date.parse(expires_at ?? "") || 0;

/**
 * Return whether messages or goodbyes can still come.
 * @param {Session} session
 */
export const isRunning = ({ status }) => ["active", "expired", "closing"].includes(status);
