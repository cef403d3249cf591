import { SesiError } from "./errors.js";
import type { Chat, Session, ShownMessage } from "./types.d.ts";
import type { Unsent } from "./outbox.js";
/**
 * Return a chat as an app shows it.
 * @param {import("./chats.js").Entry} entry
 * @param {Unsent[]} unsent
 * @returns {Chat}
 */
export declare const viewOf: ({ session, transcript, extension, readUpTo, typingUntil, credit, absentSince, warnedFor, digest }: import("./chats.js").Entry, unsent: Unsent[]) => Chat;
/**
 * Return a message as an app shows it.
 * @param {{ client_message_id: string, id?: string | null, seq?: number | null, content: string,
 *   metadata: ShownMessage["metadata"], created_at?: string | null, blanked?: boolean }} message
 * @param {boolean} own
 * @param {ShownMessage["state"]} state
 * @param {SesiError | null} [error]
 * @returns {ShownMessage}
 */
export declare const shown: ({ client_message_id, id, seq, content, metadata, created_at, blanked }: {
    client_message_id: string;
    id?: string | null;
    seq?: number | null;
    content: string;
    metadata: ShownMessage["metadata"];
    created_at?: string | null;
    blanked?: boolean;
}, own: boolean, state: ShownMessage["state"], error?: SesiError | null) => ShownMessage;
/**
 * Return whether `session` is not an older view than `known`. A session only goes forward, except that an extension, or
 * time that is given back, makes it active again until a later time.
 * @param {Session} session
 * @param {Session} known
 */
export declare function isNewer(session: Session, known: Session): boolean;
/**
 * Return whether messages or goodbyes can still come.
 * @param {Session} session
 */
export declare const isRunning: ({ status }: Session) => boolean;
