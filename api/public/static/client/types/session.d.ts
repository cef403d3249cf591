/** @import { Session } from "./types.d.ts" */
import type { Session } from "./types.d.ts";
/**
 * Return whether `session` is not an older view than `known`. A session only goes forward, except that an extension
 * makes it active again until a later time.
 * @param {Session} session
 * @param {Session} known
 */
export declare function isNewer(session: Session, known: Session): boolean;
/**
 * Return whether messages or goodbyes can still come.
 * @param {Session} session
 */
export declare const isRunning: ({ status }: Session) => boolean;
