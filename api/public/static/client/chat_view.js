import { SesiError } from "./errors.js";

/** @import { Chat, Message, MessageAckFrame, Role, ShownMessage } from "./types.d.ts" */
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
 * Return a message of the outbox as the service has stored it.
 * @param {Unsent} unsent
 * @param {MessageAckFrame} ack
 * @param {Role} role
 * @returns {Message}
 */
export const storedMessage = ({ sessionId, content, metadata }, { client_message_id, id, seq, created_at }, role) => ({
  id,
  session_id: sessionId,
  seq,
  sender_type: role,
  sender_id: "",
  client_message_id,
  type: "text",
  content,
  metadata,
  status: "sent",
  created_at,
  delivered_at: null,
  read_at: null,
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
