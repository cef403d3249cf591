import type { Chat } from "./types.d.ts";
import type { Unsent } from "./outbox.js";
/** @import { Chat, ShownMessage } from "./types.d.ts" */
/** @import { Unsent } from "./outbox.js" */
/**
 * Return a chat as an app shows it.
 * @param {import("./chats.js").Entry} entry
 * @param {Unsent[]} unsent
 * @returns {Chat}
 */
export declare const viewOf: ({ session, transcript, extension, readUpTo, typingUntil, warnedFor }: import("./chats.js").Entry, unsent: Unsent[]) => Chat;
