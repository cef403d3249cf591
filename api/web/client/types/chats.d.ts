import { Transcript } from "./transcript.js";
import type { Chat, Extension, Session } from "./types.d.ts";
import type { Message } from "./transcript.js";
export type Entry = {
    session: Session;
    transcript: Transcript;
    extension: Extension | null;
    /**
     * whether an answer to `sync` is awaited on this socket
     */
    syncing: boolean;
    readUpTo: number;
    typingUntil: number | null;
    /**
     * the newest time that was given back
     */
    credit: Chat["credit"];
    /**
     * since when the other party has been away
     */
    absentSince: string | null;
    /**
     * the `expires_at` that the warning was about
     */
    warnedFor: string | null;
    /**
     * after a change of epoch, or another digest; `own` may be lost
     */
    reread: {
        transcript: Transcript;
        own: Message[];
    } | null;
    /**
     * for which transcript the last `sync` was, and after which `seq`
     */
    asked: {
        transcript: Transcript;
        after: number;
    } | null;
    /**
     * how the transcript compares with the service's digest
     */
    digest: "unchecked" | "equal" | "reread" | "different";
};
/** The chats of this device: running ones, and those that were opened. */
export declare class Chats {
    #private;
    /** @type {Map<string, Entry>} by session id */
    entries: Map<string, Entry>;
    /** @param {import("./device.js").Device} device */
    constructor(device: import("./device.js").Device);
    /** Forget all chats. */
    clear(): void;
    /**
     * Handle an `auth_ok` with its snapshot of running sessions.
     * @param {any} frame
     * @param {boolean} isNew whether it is the first one of a socket
     */
    authenticated(frame: any, isNew: boolean): void;
    /**
     * Handle a frame of `/ws/chat`. Return whether the app should see it.
     * @param {any} frame
     * @returns {boolean}
     */
    receive(frame: any): boolean;
    /**
     * Keep a session's view, unless a newer one is known.
     * @param {Session} session
     * @param {boolean} [anyway] whether an older view counts, too
     */
    learn(session: Session, anyway?: boolean): Entry;
    /**
     * Read a session, and the messages that are missing. A failure is left to the next snapshot.
     * @param {string} id
     */
    refresh(id: string): Promise<void>;
    /**
     * Read a session. Raises SesiError.
     * @param {string} id
     * @returns {Promise<Session>}
     */
    read(id: string): Promise<Session>;
    /**
     * Change a session and return it. Raises SesiError.
     * @param {string} route
     * @param {string} id
     * @param {object} [body]
     * @returns {Promise<Session>}
     */
    act(route: string, id: string, body?: object): Promise<Session>;
    /**
     * Answer an extension. Raises SesiError.
     * @param {string} id session id
     * @param {string} extensionId
     * @param {boolean} accept
     * @returns {Promise<Extension>}
     */
    answerExtension(id: string, extensionId: string, accept: boolean): Promise<Extension>;
    /**
     * Read a session and the end of its transcript, unless both are known. Raises SesiError.
     * @param {string} id
     */
    open(id: string): Promise<void>;
    /**
     * Read what comes before the transcript's first message. Raises SesiError.
     * @param {string} id
     */
    loadEarlier(id: string): Promise<void>;
    /**
     * Add a message that the service has stored. Return whether it is new.
     * @param {Message} message
     */
    stored(message: Message): boolean;
    /**
     * Return the messages before a `seq`, or the last ones. Raises SesiError.
     * @param {string} id
     * @param {number} [before]
     * @returns {Promise<Message[]>}
     */
    page(id: string, before?: number): Promise<Message[]>;
    /**
     * Add messages that the service has stored.
     * @param {Entry} entry
     * @param {Message[]} messages
     */
    add(entry: Entry, messages: Message[]): void;
    /**
     * Show a chat and what the outbox has for it, after changes.
     * @param {string} id
     * @param {Partial<Entry>} [changes]
     */
    show(id: string, changes?: Partial<Entry>): void;
}
