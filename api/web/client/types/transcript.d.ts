import type { Message as Sent, ShownMessage } from "./types.d.ts";
export type Message = Pick<Sent, "id" | "session_id" | "seq" | "sender_type" | "client_message_id" | "content" | "metadata" | "status" | "created_at"> & Partial<Pick<Sent, "blanked">>;
/** The messages of one session by `seq`. Those from `first` to `last` are without a hole. */
export declare class Transcript {
    #private;
    first: number;
    last: number;
    /** @param {"customer" | "mitra"} role the reader's side */
    constructor(role: "customer" | "mitra");
    /** Whether a message is missing before one that has arrived. */
    get hasHole(): boolean;
    /** @param {number} seq */
    has(seq: number): boolean;
    /**
     * Begin an empty transcript with its end, which was read as a page.
     * @param {readonly Message[]} messages in ascending order, without holes
     */
    beginWith(messages: readonly Message[]): void;
    /**
     * Add messages. Return those of the other party that are new and have none missing before them.
     * @param {readonly Message[]} messages
     */
    add(messages: readonly Message[]): Message[];
    /**
     * Apply the other party's mark to the reader's messages. Return whether one has changed.
     * @param {"delivered" | "read"} status
     * @param {number} upTo
     */
    mark(status: "delivered" | "read", upTo: number): boolean;
    /** Return the reader's messages, also those behind a hole. */
    own(): Message[];
    /**
     * Return how many messages of the other party neither the service nor `upTo` counts as read.
     * @param {number} upTo
     */
    unread(upTo: number): number;
    /** Return the messages without a hole, then the reader's acknowledged ones behind it, as apps show them. */
    shown(): readonly ShownMessage[];
    /**
     * Return the messages from one `seq` to another; they are without a hole.
     * @param {number} from
     * @param {number} to
     */
    between(from: number, to: number): Message[];
}
