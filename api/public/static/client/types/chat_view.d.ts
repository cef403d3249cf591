import type { Chat, Message, MessageAckFrame, Role } from "./types.d.ts";
import type { Unsent } from "./outbox.js";
/** @import { Chat, Message, MessageAckFrame, Role, ShownMessage } from "./types.d.ts" */
/** @import { Unsent } from "./outbox.js" */
/**
 * Return a chat as an app shows it.
 * @param {import("./chats.js").Entry} entry
 * @param {Unsent[]} unsent
 * @returns {Chat}
 */
export declare const viewOf: ({ session, transcript, extension, readUpTo, typingUntil, warnedFor }: import("./chats.js").Entry, unsent: Unsent[]) => Chat;
/**
 * Return a message of the outbox as the service has stored it.
 * @param {Unsent} unsent
 * @param {MessageAckFrame} ack
 * @param {Role} role
 * @returns {Message}
 */
export declare const storedMessage: ({ sessionId, content, metadata }: Unsent, { client_message_id, id, seq, created_at }: MessageAckFrame, role: Role) => Message;
