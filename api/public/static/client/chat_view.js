import { SesiError } from "./errors.js";

/** @import { Chat, ShownMessage } from "./types.d.ts" */
/** @import { Unsent } from "./outbox.js" */

/**
 * Return a chat as an app shows it.
 * @param {import("./chats.js").Entry} entry
 * @param {Unsent[]} unsent
 * @returns {Chat}
 */
export const viewOf = ({ session, transcript, extension, readUpTo, typingUntil, warnedFor }, unsent) =>
  Object.freeze({
    session,
    extension,
    messages: [...transcript.shown(), ...unsent.map(shownUnsent)],
    hasEarlier: transcript.first > 1,
    unread: transcript.last > 0 ? transcript.unread(readUpTo) : session.unread_count,
    typingUntil,
    warned: warnedFor !== null && warnedFor === session.expires_at,
  });

/**
 * @param {Unsent} unsent
 * @returns {ShownMessage}
 */
const shownUnsent = ({ id, content, metadata, refusal }) => ({
  clientMessageId: id,
  id: null,
  seq: null,
  own: true,
  content,
  metadata,
  createdAt: null,
  state: refusal ? "refused" : "sending",
  error: refusal && new SesiError(refusal.status, refusal),
});
