import { SesiError } from "./errors.js";

/** @import { Chat, Session, ShownMessage } from "./types.d.ts" */
/** @import { Unsent } from "./outbox.js" */

const ORDER = ["searching", "active", "expired", "closing", "completed", "cancelled", "failed"];

/**
 * Return a chat as an app shows it.
 * @param {import("./chats.js").Entry} entry
 * @param {Unsent[]} unsent
 * @returns {Chat}
 */
export const viewOf = (
  { session, transcript, extension, readUpTo, typingUntil, credit, absentSince, warnedFor, digest },
  unsent,
) =>
  Object.freeze({
    session,
    extension,
    messages: [...transcript.shown(), ...unsent.map(shownUnsent)],
    hasEarlier: transcript.first > 1,
    unread: transcript.last > 0 ? transcript.unread(readUpTo) : session.unread_count,
    typingUntil,
    credit,
    digest: digest === "reread" ? "unchecked" : digest,
    peer: { absent: isHeld(session) ? absentSince : null },
    warned: warnedFor !== null && warnedFor === session.expires_at,
  });

/**
 * Return a message as an app shows it.
 * @param {{ client_message_id: string, id?: string | null, seq?: number | null, content: string,
 *   metadata: ShownMessage["metadata"], created_at?: string | null, blanked?: boolean }} message
 * @param {boolean} own
 * @param {ShownMessage["state"]} state
 * @param {SesiError | null} [error]
 * @returns {ShownMessage}
 */
export const shown = (
  { client_message_id, id = null, seq = null, content, metadata, created_at = null, blanked = false },
  own,
  state,
  error = null,
) => ({
  clientMessageId: client_message_id,
  id,
  seq,
  own,
  content,
  metadata,
  blanked,
  createdAt: created_at,
  state,
  error,
});

/** @param {Unsent} unsent */
const shownUnsent = ({ id, content, metadata, refusal }) =>
  shown(
    { client_message_id: id, content, metadata },
    true,
    refusal ? "refused" : "sending",
    refusal && new SesiError(refusal.status, refusal),
  );

/**
 * Return whether `session` is not an older view than `known`. A session only goes forward, except that an extension, or
 * time that is given back, makes it active again until a later time.
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

/** @param {Session} session */
const isHeld = ({ status }) => status === "active" || status === "expired";

/**
 * Return whether messages or goodbyes can still come.
 * @param {Session} session
 */
export const isRunning = ({ status }) => ["active", "expired", "closing"].includes(status);
